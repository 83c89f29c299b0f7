//! The kernel's neighbours, asked for once.

use crate::event::{Event, Neighbor};
use crate::messages;
use crate::requests::List;
use crate::socket::{Received, Socket};
use std::io;

/// All neighbours whose MAC addresses the kernel knows now, at all interfaces.
///
/// # Errors
/// What the system says.
pub fn neighbors_now() -> io::Result<Vec<Neighbor>> {
    let mut socket = Socket::open_for_answers()?;
    socket.send(&List::Neighbors.question(1))?;
    let mut known = Vec::new();
    // The kernel goes on with its list whenever some of it is taken.
    while let Received::Datagram(bytes) = socket.receive()? {
        messages::read(bytes, &mut |event| match event {
            Event::Neighbor(neighbor) if neighbor.mac.is_some() => known.push(neighbor),
            _ => {}
        });
    }
    Ok(known)
}
