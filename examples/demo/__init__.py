"""The demo, `./run demo`: real files through a queue, a worker killed in mid-run, and a count.

    load.py ──► documents row + task, one transaction ──► tasks.py, in two worker.py processes
                                                                │ result + completion,
    watch.py ◄── the database ──► report.py                     ▼ one transaction

Read tasks.py first, then load.py: they are what a program of yours would have. The rest makes
trouble and counts. All it stores is in two schemas of its own, which it makes anew at each start.
"""
