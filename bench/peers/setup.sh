#!/bin/sh
# Installs the libraries that `recalld bench peers` compares with into a virtual
# environment of their own. A second run on the same folder changes nothing.
#
#   setup.sh FOLDER     PYTHON=python3.13 chooses another interpreter
set -eu

[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
	echo "$python is missing or older than 3.11: install python3 or name another in PYTHON" >&2
	exit 1
}
[ -x "$1/bin/pip" ] || "$python" -m venv "$1" || {
	echo "no virtual environment could be made; on Debian install python3-venv" >&2
	exit 1
}
"$1/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --require-hashes -r "$here/requirements.txt"
for name in numpy faiss usearch sqlite-vec; do
	echo "$name: $("$1/bin/python" "$here/peer.py" "$name" </dev/null)"
done
