"""The shell scripts that run on a serving host: constants; values come as arguments, files or stdin.

All that spectune keeps on a host is one folder per unit, `/run/spectune/KEY` (for user units below
`$XDG_RUNTIME_DIR`), and the lock file beside it:

    KEY.lock       flock, held by every change for as long as the change takes
    KEY/token      who may change the unit; another token there means: the lease is lost
    KEY/unit scope former others boot_id drop_in timeout    what to give back, and to which state
    KEY/heartbeat  /proc/uptime, in hundredths of a second, of the tuner's last sign of life
    KEY/changed    there from before the first change to the server until its return was ordered
    KEY/journal    the steps done, beside the unit
    KEY/header     what the tuner's own journal begins with, for a `restore` from another machine
    KEY/undo.sh watchdog.sh

Exit statuses of ours: 75 the lock is held too long, 76 the lease is not ours, 77 another has the lease,
78 the state was not reached.
"""

LOCK_BUSY, LEASE_LOST, LEASE_TAKEN, NOT_REACHED = 75, 76, 77, 78

# $1 folder, $2 token. The lock file may be removed between our open and our lock: then once more.
HEAD = r"""
set -u
umask 077
trap '' HUP PIPE
dir=$1 token=$2
shift 2
take() {
  mkdir -p -- "${dir%/*}" || exit 73
  while :; do
    exec 9>>"$dir.lock" || exit 73
    flock -w 20 9 || exit 75
    mine=$(stat -Lc %d:%i "/proc/$$/fd/9")
    [ "$mine" = "$(stat -Lc %d:%i -- "$dir.lock" 2>/dev/null)" ] && return
    exec 9>&-
  done
}
drop() { exec 9>&-; }
owns() { [ "$(cat "$dir/token" 2>/dev/null)" = "$token" ]; }
put() { cat >"$dir/$1.new" && mv -f -- "$dir/$1.new" "$dir/$1"; }
uptime_cs() { read -r up _ </proc/uptime; echo "${up%.*}${up#*.}"; }
beat() { uptime_cs | put heartbeat; }
note() { echo "$(uptime_cs) $*" >>"$dir/journal"; }
ctl() { if [ "$(cat "$dir/scope")" = user ]; then systemctl --user "$@" 9>&-; else systemctl "$@" 9>&-; fi; }
state() {
  if [ "$(cat "$dir/scope")" = docker ]; then container_state "$1"
  else ctl show -p "$1" --value -- "$(cat "$dir/unit")"
  fi
}
container_state() {
  [ "$1" = ActiveState ] || return 0
  set -- $(docker inspect --type container --format '{{.State.Running}} {{.State.ExitCode}}' \
    -- "$(cat "$dir/unit")" 2>/dev/null 9>&-)
  case "${1:-} ${2:-0} $(cat "$dir/former")" in
  true*) echo active ;;
  *" 0 "* | *inactive) echo inactive ;;
  *) echo failed ;;
  esac
}
[ "${XDG_RUNTIME_DIR:-}" ] || export XDG_RUNTIME_DIR="/run/user/$(id -u)"
"""

OWNED = HEAD + "take\nowns || exit 76\nbeat\n"

# Removes the drop-in, puts a persistent one back, orders the former state. Safe to run again at any time.
_UNDO_BODY = r"""
unit=$(cat "$dir/unit")
drop_in=$(cat "$dir/drop_in")
rm -f -- "$drop_in" "$drop_in.new" "${drop_in%.conf}.json" "${drop_in%.conf}.json.new"
rmdir -- "${drop_in%/*}" 2>/dev/null
if [ -f "$dir/kept" ]; then
  kept=$(cat "$dir/kept")
  if [ -f "$kept/pending" ] && [ ! -f "$kept/committed" ]; then
    target=$(cat "$kept/target")
    if [ -f "$kept/previous" ]; then
      cp -p -- "$kept/previous" "$target.new" && mv -f -- "$target.new" "$target"
    else rm -f -- "$target"; rmdir -- "${target%/*}" 2>/dev/null
    fi
    sync
  fi
  rm -f -- "$kept/pending"
fi
ctl daemon-reload
ctl reset-failed -- "$unit" 2>/dev/null
now=$(state ActiveState)
case "$(cat "$dir/former")" in
active)
  if [ -e "$dir/changed" ]; then ctl restart --no-block -- "$unit"
  elif [ "$now" != active ] && [ "$now" != activating ]; then ctl start --no-block -- "$unit"
  fi ;;
*)
  if [ "$now" != inactive ]; then ctl stop --no-block -- "$unit"; fi ;;
esac
rm -f -- "$dir/changed"
while read -r other; do [ "$other" ] && ctl start --no-block -- "$other" </dev/null; done <"$dir/others"
note undone
"""

# Exit 78 until the unit is where it was and no job is left.
_CHECK_BODY = r"""
[ "$(state ActiveState)" = "$(cat "$dir/former")" ] && [ -z "$(state Job)" ] && exit 0
exit 78
"""

_FINISH_BODY = r"""
ctl stop --no-block -- "spectune-watchdog-${dir##*/}.service" 2>/dev/null
rm -rf -- "$dir"
rm -f -- "$dir.lock"
rmdir -- "${dir%/*}" 2>/dev/null
exit 0
"""

UNDO = OWNED + _UNDO_BODY
CHECK = HEAD + "owns || exit 76" + _CHECK_BODY
FINISH = (
    HEAD
    + 'take\n[ -d "$dir" ] || { rm -f -- "$dir.lock"; rmdir -- "${dir%/*}" 2>/dev/null; exit 0; }\n'
    + ('owns || [ ! -e "$dir/token" ] || exit 76' + _FINISH_BODY)
)

# stdin: the journal's header.
# $3 unit $4 scope $5 former $6 drop-in $7 timeout (hundredths) $8 kept folder or "" $9… dependents
ACQUIRE = (
    HEAD
    + r"""
take
if [ -e "$dir/token" ]; then
  owns && exit 0
  echo "$(($(uptime_cs) - $(cat "$dir/heartbeat"))) $(cat "$dir/timeout") $(cat "$dir/token")"
  exit 77
fi
rm -rf -- "$dir"
mkdir -- "$dir" || exit 73
for name in unit scope former drop_in timeout; do printf '%s\n' "$1" | put "$name"; shift; done
if [ "$1" ]; then printf '%s\n' "$1" | put kept; fi
shift
for other; do printf '%s\n' "$other"; done | put others
cat /proc/sys/kernel/random/boot_id | put boot_id
put header
beat
note acquired
printf '%s\n' "$token" | put token
"""
)

BEAT = OWNED

# stdin: the watchdog's script; $3: the undo script. Started once; a second call finds it running.
WATCH = (
    OWNED
    + r"""
put watchdog.sh
printf '%s\n' "$1" | put undo.sh
name="spectune-watchdog-${dir##*/}"
ctl is-active --quiet -- "$name.service" && exit 0
ctl reset-failed -- "$name.service" 2>/dev/null
scope=--system
[ "$(cat "$dir/scope")" = user ] && scope=--user
systemd-run "$scope" --quiet --collect --unit="$name" \
  /bin/sh "$dir/watchdog.sh" "$dir" "$token" 9>&- || exit 1
note watchdog
"""
)

# It takes the lease over before it undoes anything, so that a tuner whose line comes back is refused.
WATCHDOG = (
    HEAD
    + r"""
timeout=$(cat "$dir/timeout") || exit 0
pause=$((timeout / 500))
[ "$pause" -ge 1 ] || pause=0.2
while :; do
  sleep "$pause"
  owns || exit 0
  [ "$(cat "$dir/boot_id")" = "$(cat /proc/sys/kernel/random/boot_id)" ] || exit 0
  last=$(cat "$dir/heartbeat") || continue
  [ $(($(uptime_cs) - last)) -gt "$timeout" ] || continue
  take
  owns || exit 0
  last=$(cat "$dir/heartbeat")
  if [ $(($(uptime_cs) - last)) -le "$timeout" ]; then drop; continue; fi
  note "watchdog: no sign of life for $(($(uptime_cs) - last)) hundredths of a second"
  token="watchdog-$token"
  printf '%s\n' "$token" | put token
  drop
  break
done
tries=0
while :; do
  /bin/sh "$dir/undo.sh" "$dir" "$token"
  polls=0
  while [ "$polls" -lt 600 ]; do
    now=$(state ActiveState)
    [ "$now" = "$(cat "$dir/former")" ] && [ -z "$(state Job)" ] && break 2
    [ "$now" = failed ] && break
    polls=$((polls + 1))
    sleep 0.5
  done
  tries=$((tries + 1))
  [ "$tries" -lt 6 ] || { note "watchdog: gave up"; : >"$dir/gave_up"; exit 1; }
  sleep $((tries * tries))
done
take
owns || exit 0
rm -rf -- "$dir"
rm -f -- "$dir.lock"
rmdir -- "${dir%/*}" 2>/dev/null
exit 0
"""
)

# stdin: the drop-in's text, which may hold secrets.
DROP_IN = (
    OWNED
    + r"""
: >"$dir/changed"
drop_in=$(cat "$dir/drop_in")
mkdir -p -m 755 -- "${drop_in%/*}" || exit 1
cat >"$drop_in.new" && mv -f -- "$drop_in.new" "$drop_in" || exit 1
note drop-in
"""
)

# stdin: a file that the trial's command names; the unit's own user reads it, it holds no secret.
FILE = (
    OWNED
    + r"""
drop_in=$(cat "$dir/drop_in")
file="${drop_in%.conf}.json"
cat >"$file.new" && chmod 644 -- "$file.new" && mv -f -- "$file.new" "$file" || exit 1
note file
"""
)
RELOAD = OWNED + "ctl daemon-reload || exit 1\nnote reloaded\n"
START = (
    OWNED
    + r"""
: >"$dir/changed"
ctl reset-failed -- "$(cat "$dir/unit")" 2>/dev/null
ctl start --no-block -- "$(cat "$dir/unit")" || exit 1
note "started $1"
"""
)
STOP = (
    OWNED
    + r"""
: >"$dir/changed"
ctl stop --no-block -- "$(cat "$dir/unit")" || exit 1
note "stopped $1"
"""
)

# apply: $3 target. stdin: the new drop-in. The one there is kept outside /run before it is replaced.
PERSIST = (
    OWNED
    + r"""
kept=$(cat "$dir/kept")
target=$1
mkdir -p -- "$kept" || exit 1
mkdir -p -m 755 -- "${target%/*}" || exit 1
if [ ! -f "$kept/pending" ]; then
  rm -f -- "$kept/previous" "$kept/committed"
  if [ -f "$target" ]; then cp -p -- "$target" "$kept/previous" || exit 1; fi
  printf '%s\n' "$target" >"$kept/target"
  : >"$kept/pending"
  sync
fi
: >"$dir/changed"
cat >"$target.new" || exit 1
if [ -s "$target.new" ]; then mv -f -- "$target.new" "$target"; else rm -f -- "$target" "$target.new"; fi
sync
note persisted
"""
)
RESTART = (
    OWNED
    + r"""
: >"$dir/changed"
ctl reset-failed -- "$(cat "$dir/unit")" 2>/dev/null
ctl daemon-reload || exit 1
if [ "$(cat "$dir/former")" = active ]; then ctl restart --no-block -- "$(cat "$dir/unit")" || exit 1; fi
note restarted
"""
)
COMMIT = (
    OWNED
    + r"""
kept=$(cat "$dir/kept")
printf '%s\n' "$token" >"$kept/committed.new" && mv -f -- "$kept/committed.new" "$kept/committed" || exit 1
rm -f -- "$kept/pending"
sync
rm -f -- "$dir/changed"
note committed
"""
)

# The watchdog gave up, `spectune restore` goes on in its place.
TAKE_OVER = (
    HEAD
    + r"""
take
[ -e "$dir/gave_up" ] && [ "$(cat "$dir/token")" = "watchdog-$token" ] || exit 76
rm -f -- "$dir/gave_up"
beat
note "taken over"
printf '%s\n' "$token" | put token
"""
)

# Whether nothing of a session is left that would have to be undone. $1 folder, $2 drop-in, $3 kept folder.
LEFT = r"""
[ -e "$1/token" ] && { echo "token=$(cat "$1/token")"; [ -e "$1/gave_up" ] && echo gave_up=1; }
[ -e "$2" ] && echo drop_in=1
[ "$3" ] && [ -e "$3/pending" ] && echo pending=1
exit 0
"""

# What an interrupted session left for a `restore` from another machine. $1 folder. Reads only.
HEADER = r"""
[ -f "$1/header" ] || exit 78
read -r up _ </proc/uptime
echo "$(($(echo "${up%.*}${up#*.}") - $(cat "$1/heartbeat"))) $(cat "$1/timeout") $(cat "$1/token")"
cat "$1/header"
"""

# Runs its arguments with the user's manager in reach.
READ = r"""
[ "${XDG_RUNTIME_DIR:-}" ] || export XDG_RUNTIME_DIR="/run/user/$(id -u)"
exec "$@"
"""

# Reads only. $1: system or user.
FACTS = r"""
set -u
[ "${XDG_RUNTIME_DIR:-}" ] || export XDG_RUNTIME_DIR="/run/user/$(id -u)"
echo "uid=$(id -u)"
echo "boot_id=$(cat /proc/sys/kernel/random/boot_id)"
echo "runtime=$XDG_RUNTIME_DIR"
echo "config=${XDG_CONFIG_HOME:-${HOME:-/root}/.config}"
echo "state=${XDG_STATE_HOME:-${HOME:-/root}/.local/state}"
systemctl --version 2>/dev/null | { read -r _ version _ && echo "systemd=$version"; }
for tool in systemctl systemd-run flock stat; do
  command -v "$tool" >/dev/null 2>&1 || echo "missing=$tool"
done
[ -d /run/systemd/system ] || [ "$1" = user ] || echo "missing=a running systemd"
"""
