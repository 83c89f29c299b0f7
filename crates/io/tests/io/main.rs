//! Captures in and out, beside a program that knows them.

mod ports;
mod real_captures;
mod tshark;
