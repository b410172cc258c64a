from dataclasses import replace

import pytest

from spectune.errors import ConfigError
from spectune.launch.systemd_unit import ExecLine, Unit, read_environment_file, read_unit, trial_drop_in
from spectune.launch.unit_name import UnitName

NAME = UnitName.parse("llm@8000")
SHOWN = """\
LoadState=loaded
ActiveState=active
FragmentPath=/etc/systemd/system/llm@.service
DropInPaths=/etc/systemd/system/llm@.service.d/10-a.conf /etc/systemd/system/llm@8000.service.d/20-b.conf
RequiredBy=front.service multi-user.target
BoundBy=
ConsistsOf=front.service helper.service
"""
CAT = """\
# /etc/systemd/system/llm@.service
[Unit]
Description=ExecStart=/not/this
[Service]
# ExecStart=/nor/this
# /usr/bin/old-server was here before
Environment="MODEL=/m/a b" HF_TOKEN=hf_secretsecret PORT=%i
EnvironmentFile=-/etc/llm/%i.env
ExecStart=/usr/bin/spectune serve \\
  # a comment between
  --port ${PORT} --model "${MODEL}" \\
  $EXTRA
[Install]
ExecStart=/in/another/section

# /etc/systemd/system/llm@.service.d/10-a.conf
[Service]
ExecStart=
ExecStart=/opt/spectune serve --host 0.0.0.0 --port ${PORT} 'x y' $EXTRA --last

# /etc/systemd/system/llm@8000.service.d/20-b.conf
[Service]
Environment=EXTRA="--k 3 --speculative-num-steps 3"
"""


def unit(cat: str = CAT, shown: str = SHOWN) -> Unit:
    return read_unit(NAME, shown, cat)


def test_the_command_in_force_is_found_and_expanded() -> None:
    found = replace(unit(), environment=(("PORT", "8000"), ("EXTRA", "--k 3")))
    assert found.command.argv == (
        "/opt/spectune", "serve", "--host", "0.0.0.0", "--port", "8000", "x y", "--k", "3", "--last",
    )  # fmt: skip


def test_environment_files_drop_ins_and_dependents_are_read() -> None:
    found = unit()
    assert found.environment_files == ("-/etc/llm/8000.env",)
    assert dict(found.environment)["PORT"] == "8000"
    assert dict(found.environment)["MODEL"] == "/m/a b"
    assert found.drop_ins[-1].endswith("20-b.conf")
    assert found.dependents == ("front.service", "helper.service")
    assert "hf_secret" not in found.described_environment
    assert found.command.env == (("HF_TOKEN", "hf_secretsecret"),)
    assert "hf_secret" not in found.command.printable


def test_only_changed_words_are_written_anew() -> None:
    found = replace(unit(), environment=(("PORT", "8000"), ("EXTRA", "--k 3")))
    argv = (*found.command.argv, "--new", "100% $x")
    line = found.exec_line_for(replace(found.command, argv=argv))
    assert line == (
        "/opt/spectune serve --host 0.0.0.0 --port ${PORT} 'x y' $EXTRA --last --new \"100%% $$x\""
    )


def test_a_variable_of_several_words_is_written_out_when_one_of_them_goes() -> None:
    found = replace(unit(), environment=(("PORT", "8000"), ("EXTRA", "--k 3 --speculative-num-steps 3")))
    argv = tuple(w for w in found.command.argv if w != "--speculative-num-steps")
    place = argv.index("--k") + 2
    line = found.exec_line_for(replace(found.command, argv=argv[:place] + argv[place + 1 :]))
    assert line == "/opt/spectune serve --host 0.0.0.0 --port ${PORT} 'x y' --k 3 --last"


def test_the_unchanged_command_is_the_unchanged_line() -> None:
    found = unit()
    assert found.exec_line_for(found.command) == found.exec_start


@pytest.mark.parametrize(
    ("line", "argv"),
    [
        ("-/bin/a b", ("/bin/a", "b")),
        (":/bin/a $HOME", ("/bin/a", "$HOME")),
        ("/bin/a $$HOME ${NONE}x $NONE", ("/bin/a", "$HOME", "x")),
        ("/bin/a %p %i %n %% %I", ("/bin/a", "llm", "8000", "llm@8000.service", "%", "8000")),
    ],
)
def test_prefixes_specifiers_and_variables(line: str, argv: tuple[str, ...]) -> None:
    assert replace(unit(), exec_start=line).command.argv == argv


@pytest.mark.parametrize("line", ["", "-", "@/bin/a zero b", "/bin/a ; /bin/b", '/bin/a "open'])
def test_lines_that_cannot_be_rewritten_are_refused(line: str) -> None:
    with pytest.raises(ConfigError, match="ExecStart"):
        ExecLine.parse(line)


def test_a_prefix_is_kept() -> None:
    found = replace(unit(), exec_start="-/bin/a b")
    assert found.exec_line_for(replace(found.command, argv=("/bin/a", "b", "c"))) == "-/bin/a b c"


def test_units_that_are_not_there_or_have_several_commands_are_refused() -> None:
    with pytest.raises(ConfigError, match="not-found"):
        unit(shown="LoadState=not-found\n")
    with pytest.raises(ConfigError, match="exactly one ExecStart"):
        unit(cat="[Service]\nExecStart=/a\nExecStart=/b\n")


def test_environment_files_have_a_shells_quotes() -> None:
    text = '# no\n; no\nA=\'x "y"\'\nB="a\\"b"\nC = 3 \nD=one\\\ntwo\n1X=no\nEMPTY=\n'
    assert read_environment_file(text) == {
        "A": 'x "y"', "B": 'a"b', "C": "3", "D": "onetwo", "EMPTY": "",
    }  # fmt: skip


def test_a_trials_drop_in_takes_the_restart_away_and_a_persistent_one_does_not() -> None:
    assert trial_drop_in("/bin/a", is_trial=True).endswith("ExecStart=\nExecStart=/bin/a\nRestart=no\n")
    assert "Restart" not in trial_drop_in("/bin/a", is_trial=False)
