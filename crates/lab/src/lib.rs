//! Virtual time: faults, checkers and the protocol's model check
