#!/usr/bin/env python3
"""Writes the vectors of this folder: configurations as SONiC's documents have them, packets as scapy builds
them, expected ones by the rules of the documents.

    pip install scapy==2.8.0 && python3 make.py
"""
import sys

# Folders here are vectors.
sys.dont_write_bytecode = True

import access_lists
import connections
import headers
import networks
import services
from common import over_v6

ONCE = (
    *access_lists.ONCE, *networks.ONCE, *services.ONCE, *headers.ONCE, *connections.ONCE,
)
# Those that are made for an underlay of IPv6, too.
TWICE = (
    *access_lists.TWICE, *networks.TWICE, *services.TWICE, *headers.TWICE, *connections.TWICE,
)

for make in (*ONCE, *TWICE):
    make()
with over_v6():
    for make in TWICE:
        make()
