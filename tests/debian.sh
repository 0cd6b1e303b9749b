#!/usr/bin/env bash
# Proves lostack on another Debian, with its Python, as a user without rights.
#   tests/debian.sh FOLDER                    make run, make test-fast; on Debian 13 (Python 3.13)
#   tests/debian.sh FOLDER "make test-fast"   other commands, each a word
#   SUITE=sid tests/debian.sh FOLDER          another Debian (MIRROR=... where the usual one is not reached)
# It needs root and debootstrap. FOLDER, outside the repository, gets the system: it is used again if it is there.
# The clone in it is made anew if another commit is checked out here. What the commands leave running is ended.
set -eu
repository=$(cd "$(dirname "$0")/.." && git rev-parse --show-toplevel)
[ $# -ge 1 ] || { sed -n '2,7s/^# \?//p' "$0" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "tests/debian.sh must be run as root" >&2; exit 3; }
command -v debootstrap >/dev/null || { echo "there is no debootstrap (Debian: apt-get install debootstrap)" >&2; exit 3; }
mkdir -p "$1"
root=$(cd "$1" && pwd -P); shift
case "$root/" in "$repository"/*) echo "$root lies in the repository: name a folder outside" >&2; exit 2;; esac
[ $# -gt 0 ] || set -- "make run" "make test-fast"
packages=(ca-certificates git make openjdk-21-jre-headless procps python3 python3-venv strace)

if [ ! -e "$root/.made" ]; then
  debootstrap --variant=minbase "${SUITE:-trixie}" "$root" ${MIRROR:+"$MIRROR"} >"$root.log" 2>&1 ||
    { tail -n 3 "$root.log" >&2; exit 3; }
  # how this machine reaches registries holds there, too: its resolver, its authorities, its index
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
  [ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/"
  mkdir -p "$root/usr/local/share/ca-certificates"
  find /usr/local/share/ca-certificates -name '*.crt' -exec cp {} "$root/usr/local/share/ca-certificates/" \;
  touch "$root/.made"
fi

running=
trap '[ -z "$running" ] || kill -KILL "$running" 2>/dev/null || true' EXIT  # what runs inside ends with it
trap 'exit 130' INT TERM
inside() {  # USER COMMAND: with mounts and processes of its own, which go with it
  local passed
  mapfile -t passed < <(env | grep -iE '^((https?|no|all)_proxy|PIP_INDEX_URL|UV_DEFAULT_INDEX|ARGS)=' || true)
  unshare --mount --pid --fork --kill-child -- bash -euc '
    mount -t proc proc "$1/proc"; mount --rbind /sys "$1/sys"; mount --rbind /dev "$1/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$1/dev/shm"
    home=$(chroot "$1" getent passwd "$2" | cut -d: -f6)
    chroot --userspec="$2:$2" "$1" /usr/bin/env -i HOME="$home" PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
      DEBIAN_FRONTEND=noninteractive "${@:4}" bash -euc "cd; $3"
    exit  # keeps this shell the first process, which no signal of the others ends
  ' bash "$root" "$1" "$2" "${passed[@]}" &
  running=$!
  local code=0
  wait "$running" || code=$?
  running=
  return $code
}

inside root "dpkg -s ${packages[*]} >/dev/null 2>&1 ||
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends ${packages[*]}; } >/dev/null
  update-ca-certificates >/dev/null 2>&1
  id tester >/dev/null 2>&1 || useradd --create-home tester"
clone=$root/home/tester/lostack
if [ "$(git -c safe.directory='*' -C "$clone" rev-parse HEAD 2>/dev/null)" != "$(git -C "$repository" rev-parse HEAD)" ]; then
  rm -rf "$clone"
  git clone --quiet --no-hardlinks "$repository" "$clone"
  inside root "chown -R tester:tester /home/tester/lostack"
fi
inside tester '. /etc/os-release; echo "$PRETTY_NAME, $(python3 --version), $(whoami)"'
ended=0
for command; do
  inside tester "cd lostack; $command" || { ended=1; echo "red: $command" >&2; }
done
exit $ended
