//! Payloads in remote memory, over links that lose, double, reorder and damage.

mod simulation;
