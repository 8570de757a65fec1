# What the scripts have in common that start servers on loopback; they set $dir and $servers before.
name=$(basename "$0" .sh)
say() { echo "$name: $*" >&2; }

# Ends the script where a program is missing: the Debian packages, and the programs.
require() {
  local packages=$1 program
  for program in "${@:2}"; do
    if ! command -v "$program" >/dev/null; then
      say "$program is missing: apt-get install --no-install-recommends $packages"
      exit 1
    fi
  done
}

# Makes room for servers in $dir: ends those of this name that it has by its configuration, and removes their files.
clear_folder() {
  local conf=$1
  if [ -e "$dir/$conf" ]; then
    "$servers/${name%-start}-stop.sh" "$dir"
    (cd "$dir" && rm -rf "$@")
  elif [ -n "$(ls -A "$dir" 2>/dev/null)" ]; then
    say "$dir holds something else; give a new or empty folder"
    exit 1
  fi
}

taken() { (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# Below the range from which the kernel takes ports for outgoing connections.
free_port() {
  local port
  while port=$((20000 + RANDOM % 12000)) && taken "$port"; do :; done
  echo "$port"
}
