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

VECTORS = (
    *access_lists.VECTORS, *networks.VECTORS, *services.VECTORS, *headers.VECTORS, *connections.VECTORS,
)

for make in VECTORS:
    make()
networks.over_v6_inside()
with over_v6():
    for make in VECTORS:
        make()
