//! Parked packets, against workers that see whole ones.

mod whole_packets;
