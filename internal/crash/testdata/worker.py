"""A worker of the Python SDK that writes down when it runs what: worker.py URL LEDGER."""

import os
import sys
import time

import sojourn

ledger = open(sys.argv[2], "a", buffering=1)
worker = sojourn.Worker(sojourn.Client(sys.argv[1], token=os.environ["SOJOURN_TOKEN"]), concurrency=4)


@worker.handler("work")
def work(job):
    ledger.write("begin %d %d python\n" % (job.id, time.time_ns()))
    time.sleep(job.args / 1000)
    ledger.write("end %d %d python\n" % (job.id, time.time_ns()))
    return {"by": "python"}


worker.run()
