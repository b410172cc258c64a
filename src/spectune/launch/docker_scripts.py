"""The shell scripts of a session on a container; lease, watchdog and folder are those of `host_scripts`.

The original is never removed: it is stopped and renamed, a trial's container takes its name, and giving back
removes that one (only if it bears this session's label), renames the original back and starts it.

    KEY/unit      the container's name
    KEY/drop_in   the name under which the original waits
    KEY/env       its variables, for --env-file
"""

from spectune.launch.container_text import TRIAL_LABEL
from spectune.launch.host_scripts import OWNED

_NAMES = (
    r"""
name=$(cat "$dir/unit")
spare=$(cat "$dir/drop_in")
has() { docker inspect --type container --format '{{.Id}}' -- "$1" >/dev/null 2>&1 9>&-; }
of_trial() {
  docker inspect --type container --format '{{index .Config.Labels "LABEL"}}' -- "$1" 2>/dev/null 9>&-
}
remove_trial() {
  has "$name" || return 0
  case "watchdog-$(of_trial "$name")" in
  "watchdog-$token" | "$token") docker rm -f -- "$name" >/dev/null 9>&- ;;
  *) echo "a container named $name is there that is not this session's" >&2; return 1 ;;
  esac
}
"""
).replace("LABEL", TRIAL_LABEL)

UNDO = (
    OWNED
    + _NAMES
    + r"""
if has "$spare"; then
  remove_trial || exit 1
  docker rename "$spare" "$name" 9>&- || exit 1
elif [ -e "$dir/changed" ]; then docker stop -t 10 -- "$name" >/dev/null 2>&1 9>&-
fi
if [ "$(cat "$dir/former")" = active ]; then
  [ "$(state ActiveState)" = active ] || docker start -- "$name" >/dev/null 9>&- || note "start failed"
elif [ "$(state ActiveState)" = active ]; then docker stop -t 10 -- "$name" >/dev/null 2>&1 9>&-
fi
rm -f -- "$dir/changed"
note undone
"""
)

# stdin: the watchdog's script; $3: the undo script. No systemd is needed: a session of its own is enough.
WATCH = (
    OWNED
    + r"""
put watchdog.sh
printf '%s\n' "$1" | put undo.sh
if [ -f "$dir/watchdog.pid" ]; then
  tr '\0' ' ' <"/proc/$(cat "$dir/watchdog.pid")/cmdline" 2>/dev/null | grep -qF "$dir/watchdog.sh" && exit 0
fi
setsid /bin/sh "$dir/watchdog.sh" "$dir" "$token" </dev/null >/dev/null 2>&1 9>&- &
echo $! | put watchdog.pid
note watchdog
"""
)

# $3: seconds until SIGKILL. It is not waited for, so that signs of life go on meanwhile.
STOP = (
    OWNED
    + _NAMES
    + r"""
: >"$dir/changed"
setsid docker stop -t "$1" -- "$name" </dev/null >/dev/null 2>&1 9>&- &
note stopped
"""
)

# stdin: the original's variables.
ENVIRONMENT = OWNED + "put env\nnote environment\n"

# stdin: the words of `docker create`, each ended by NUL: no process list on the way shows them.
CREATE = (
    OWNED
    + _NAMES
    + r"""
: >"$dir/changed"
if has "$spare"; then remove_trial || exit 1
else docker rename "$name" "$spare" 9>&- || exit 1
fi
xargs -0 -x -n 5000 docker create >/dev/null 9>&- || exit 1
note created
"""
)

# $3…: words of one `docker network connect`.
CONNECT = OWNED + _NAMES + 'docker network connect "$@" "$name" 9>&- || exit 1\nnote connected\n'

# stdin: a file that the trial's command names; $3: its path in the container.
FILE = (
    OWNED
    + _NAMES
    + r"""
put file.json
chmod 644 -- "$dir/file.json"
docker cp "$dir/file.json" "$name:$1" >/dev/null 9>&- || exit 1
note file
"""
)

START = (
    OWNED + _NAMES + ': >"$dir/changed"\ndocker start -- "$name" >/dev/null 9>&- || exit 1\nnote started\n'
)

# What is left of a session. $1 folder, $2 the original's waiting name, $3 unused.
LEFT = r"""
[ -e "$1/token" ] && { echo "token=$(cat "$1/token")"; [ -e "$1/gave_up" ] && echo gave_up=1; }
docker inspect --type container --format '{{.Id}}' -- "$2" >/dev/null 2>&1 && echo drop_in=1
exit 0
"""

LOGS = 'docker logs --tail 5000 -- "$1" 2>&1'

# Reads only.
FACTS = r"""
set -u
[ "${XDG_RUNTIME_DIR:-}" ] || export XDG_RUNTIME_DIR="/run/user/$(id -u)"
echo "uid=$(id -u)"
echo "boot_id=$(cat /proc/sys/kernel/random/boot_id)"
echo "runtime=$XDG_RUNTIME_DIR"
for tool in docker flock stat setsid xargs; do
  command -v "$tool" >/dev/null 2>&1 || echo "missing=$tool"
done
docker version --format '{{.Server.Version}}' >/dev/null 2>&1 || echo "missing=a docker daemon for this login"
"""
