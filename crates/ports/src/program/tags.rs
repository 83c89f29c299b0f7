//! VLAN tags that lie beside a frame go back into it.
//!
//! A card that takes tags off, and a VLAN interface at the far end of a virtual cable, hand the tag over
//! beside the frame, and a socket of AF_XDP gets the frame alone. In front of the rest, the program asks
//! the driver for the tag, and puts it behind the two addresses.

use super::assembler::{Assembler, When, Width};
use super::{END, FRAME, MAP_LOOKUP, PASS, RX_QUEUE_INDEX, STACK, to_socket};

const ADJUST_HEAD: i32 = 44;

const TAG_BYTES: i16 = 4;
const ADDRESSES_BYTES: i16 = 12;
const LINK_BYTES: i16 = 14;

/// On the stack: what kind of tag, its number with its priority, the queue.
const KIND: i16 = -8;
const NUMBER: i16 = -4;
const QUEUE: i16 = -12;

/// A frame with a tag beside it goes to its queue's socket with the tag inside, or as it is to the
/// kernel if the queue has none. Goes on with all other frames. The context is in register 6.
pub fn put_back(code: &mut Assembler, sockets: i32, reader: i32) {
    code.store_number(STACK, KIND, 0);
    code.store_number(STACK, NUMBER, 0);
    code.copy(1, 6);
    for (argument, place) in [(2, KIND), (3, NUMBER)] {
        code.copy(argument, STACK);
        code.add(argument, place.into());
    }
    code.call_typed(reader);
    code.jump_if(0, When::NotEqual, 0, "untagged");
    has_socket(code, sockets);
    make_room(code);
    for place in (0..ADDRESSES_BYTES).step_by(4) {
        code.load(Width::Word, 2, FRAME, place + TAG_BYTES);
        code.store(FRAME, place, 2);
    }
    code.load(Width::Half, 2, STACK, KIND);
    code.store_half(FRAME, ADDRESSES_BYTES, 2);
    code.load(Width::Half, 2, STACK, NUMBER);
    code.put_in_network_order(2);
    code.store_half(FRAME, ADDRESSES_BYTES + 2, 2);
    to_socket(code, sockets);
    code.label("as it is");
    code.set(0, PASS);
    code.exit();
    code.label("untagged");
}

fn has_socket(code: &mut Assembler, sockets: i32) {
    code.load(Width::Word, 2, 6, RX_QUEUE_INDEX);
    code.store(STACK, QUEUE, 2);
    code.load_map(1, sockets);
    code.copy(2, STACK);
    code.add(2, QUEUE.into());
    code.call(MAP_LOOKUP);
    code.jump_if(0, When::Equal, 0, "as it is");
}

/// The frame begins earlier, by as much as a tag takes. Drivers leave room for that.
fn make_room(code: &mut Assembler) {
    code.copy(1, 6);
    code.set(2, -i32::from(TAG_BYTES));
    code.call(ADJUST_HEAD);
    code.jump_if(0, When::NotEqual, 0, "as it is");
    code.load(Width::Word, FRAME, 6, 0);
    code.load(Width::Word, END, 6, 4);
    code.copy(2, FRAME);
    code.add(2, i32::from(TAG_BYTES + LINK_BYTES));
    code.jump_if_greater(2, END, "as it is");
}
