"""ClickHouse in this process, over the data in a folder.

clickhouse.py FOLDER STATEMENT... runs the statements and ends. clickhouse.py FOLDER answers each line of stdin, a JSON array of
statements, with what they give as lines, and an empty one after them.
"""

import json
import sys

import chdb

folder, *statements = sys.argv[1:]
connection = chdb.connect(folder)


def run(statement):
    return connection.query(statement, "TSVRaw").bytes() or b""


for statement in statements:
    run(statement)
if not statements:
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(b"".join(map(run, json.loads(line))) + b"\n")
        sys.stdout.buffer.flush()
connection.close()
