"""The edge agent as a package for Debian and its relatives.

    /usr/bin/fairlead                            the program
    /usr/lib/fairlead/                           our code and what it needs, for the system's Python of one version
    /usr/lib/systemd/system/fairlead-edge.service
    /usr/lib/sysusers.d/fairlead-edge.conf       the user fairlead
    /etc/fairlead/edge.toml                      settings; kept at upgrades and removal
    /var/lib/fairlead-edge                       the stores, made by systemd; removed by a purge only

`files/` has the maintainer scripts and what else is written by hand, `tree` fills the folder, `build` packs it.
"""
