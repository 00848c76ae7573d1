# Installs, configures, runs, upgrades, removes and purges the package, in a root of its own. Prints `fact: value`.
set -euo pipefail
old=$1 new=$2
: "${PORT:?a free one}"
export LC_ALL=C no_proxy='*' PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive
fact() { echo "fact $1=$2"; }
answers() { python3 -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=5)' "$1" 2>/dev/null; }
agent() {  # as the unit does, in the background
    setpriv --reuid fairlead --regid fairlead --clear-groups \
        /usr/bin/fairlead edge run --config /etc/fairlead/edge.toml >"/tmp/agent.$1" 2>&1 &
    pid=$!
    until answers "http://127.0.0.1:$PORT/readyz"; do
        kill -0 $pid || { cat "/tmp/agent.$1"; exit 1; }
        sleep 0.1
    done
    cat /var/lib/fairlead-edge/token >"/tmp/token.$1"
    kill -TERM $pid; wait $pid
}
present() { if [ -e "$1" ]; then echo yes; else echo no; fi; }

started=$(date +%s%N)
dpkg -i "$old" | grep fairlead-edge: || true
fact install_milliseconds $((($(date +%s%N) - started) / 1000000))
fact old_version "$(fairlead --version)"
fact verify "$(dpkg --verify fairlead-edge | wc -l)"
fact user "$(id -un fairlead)"
fact edge_help "$(fairlead edge --help | head -1)"
fact untouched "$(fairlead edge run --config /etc/fairlead/edge.toml >/dev/null 2>&1; echo $?)" || true

printf 'node = "edge-1"\nhub_url = "ws://127.0.0.1:1"\nsecurity = "insecure"\nhttp_listen = "127.0.0.1:%s"\ndata_dir = "/var/lib/fairlead-edge"\n' "$PORT" >/etc/fairlead/edge.toml
install -d -m 0700 -o fairlead -g fairlead /var/lib/fairlead-edge
agent old
cksum </etc/fairlead/edge.toml >/tmp/settings.before

dpkg -i "$new" >/dev/null
fact new_version "$(fairlead --version)"
fact settings_kept "$(cksum </etc/fairlead/edge.toml | cmp -s - /tmp/settings.before && echo yes)"
agent new
fact store_kept "$(cmp -s /tmp/token.old /tmp/token.new && echo yes)"

dpkg -r fairlead-edge >/dev/null
fact removed_program "$(present /usr/bin/fairlead)"
fact removed_code "$(present /usr/lib/fairlead)"
fact removed_settings "$(present /etc/fairlead/edge.toml)"
fact removed_store "$(present /var/lib/fairlead-edge/outbox.db)"

dpkg -i "$new" >/dev/null
fact again_settings "$(cksum </etc/fairlead/edge.toml | cmp -s - /tmp/settings.before && echo yes)"

dpkg -P fairlead-edge >/dev/null
fact purged_settings "$(present /etc/fairlead)"
fact purged_store "$(present /var/lib/fairlead-edge)"
fact purged_leftovers "$(find /usr /etc /var -xdev -path '*fairlead*' -newer "$old" ! -path '*/dpkg/*' -print 2>/dev/null | tee /dev/stderr | wc -l)"
fact purged_state "$(dpkg -s fairlead-edge >/dev/null 2>&1 && echo known || echo unknown)"
