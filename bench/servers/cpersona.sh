#!/bin/sh
# Installs the memory server CPersona into a virtual environment of its own, for the
# tests of importing from it and exporting to it. A second run changes nothing.
#
#   cpersona.sh FOLDER     PYTHON=python3.13 chooses another interpreter
set -eu

[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
python=${PYTHON:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
	echo "$python is missing or older than 3.11: install python3 or name another in PYTHON" >&2
	exit 1
}
[ -x "$1/bin/pip" ] || "$python" -m venv "$1" || {
	echo "no virtual environment could be made; on Debian install python3-venv" >&2
	exit 1
}
"$1/bin/pip" install --quiet --disable-pip-version-check cpersona==2.6.14
"$1/bin/python" -c 'import cpersona.database; print("cpersona answers with schema", cpersona.database.SCHEMA_VERSION)'
