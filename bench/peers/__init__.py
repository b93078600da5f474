"""Our product beside its peers: the same work, on the same server, in turns.

`roster` says who they are, `install` brings them, `programs/` uses each as its own documents say,
`crew` runs such a program in a process, `stores` asks a store what is left, `measures` is what is
measured. It stands outside of the package, since it installs others' packages.
"""
