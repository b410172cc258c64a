"""The exception tree.

    SpectuneError
    ├── ConfigError          a file, flag or value the user gave is wrong          exit status 2
    ├── LaunchError          a server could not be started or kept                 exit status 1
    │   ├── EngineExited     the server process ended by itself
    │   ├── EngineNotReady   no real generation within the deadline
    │   ├── PortInUse        another process listens on the server's port
    │   ├── ServerUnreachable   no connection, or no answer in time
    │   ├── HostUnreachable  the serving host cannot be reached, or the line dropped
    │   └── LeaseLost        someone else has taken over the unit; we may change nothing more
    ├── ProtocolError        a server's answer could not be read
    ├── LoadError            the load client could not do its work
    ├── StoreError           the study store cannot be read or written
    │   └── SchemaTooNew     written by a newer spectune
    ├── OutputError          a result could not be written
    └── NotEnoughData        a figure was asked for that the data does not give

A message names the object, the broken rule in backticks, the value found and the next step.
A crashed engine during a trial is data (`domain.trial.Failed`), not an exception that ends the study.
"""


class SpectuneError(Exception):
    """Root of all errors that spectune raises on purpose; `exit_status` is what the command returns."""

    exit_status = 1


class ConfigError(SpectuneError):
    """Something the user gave is wrong: a file, a flag, a value."""

    exit_status = 2


class LaunchError(SpectuneError):
    """A server could not be started or kept."""


class EngineExited(LaunchError):
    """The server process ended by itself."""


class EngineNotReady(LaunchError):
    """The server gave no real generation within the deadline."""


class PortInUse(LaunchError):
    """Another process listens on the server's port."""


class ServerUnreachable(LaunchError):
    """No connection to the server, or no answer in time."""


class HostUnreachable(LaunchError):
    """The serving host cannot be reached, or the line to it dropped."""


class LeaseLost(LaunchError):
    """The unit's lease is not ours (any more); nothing of it may be changed."""


class ProtocolError(SpectuneError):
    """A server's answer could not be read."""


class LoadError(SpectuneError):
    """The load client could not do its work."""


class StoreError(SpectuneError):
    """The study store cannot be read or written."""


class SchemaTooNew(StoreError):
    """The store was written by a newer spectune."""


class OutputError(SpectuneError):
    """A result could not be written."""


class NotEnoughData(SpectuneError):
    """A figure was asked for that the data does not give."""
