//! The kernel's description of its own types (BTF), by which functions are found that have no number
//! of their own.

use std::sync::OnceLock;

const PATH: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: [u8; 2] = 0xeb9f_u16.to_ne_bytes();

/// Bytes of each type, before what belongs to its kind.
const TYPE_BYTES: usize = 12;
const KIND_FUNCTION: u8 = 12;

/// The function that reads the VLAN tag of a frame, if the kernel has it (Linux 6.8 and later).
pub fn tag_reader() -> Option<i32> {
    static FOUND: OnceLock<Option<i32>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let types = std::fs::read(PATH).ok()?;
        function(&types, "bpf_xdp_metadata_rx_vlan_tag")
    })
}

/// The number of the function of this name.
fn function(bytes: &[u8], name: &str) -> Option<i32> {
    if !bytes.starts_with(&MAGIC) {
        return None;
    }
    // Header: magic 2, version 1, flags 1, then its length and where types and names are.
    let [header, types, types_bytes, names] =
        [4, 8, 12, 16].map(|place| word(bytes, place).map(|value| value as usize));
    let header = header?;
    let (types, names) = (bytes.get(header + types?..)?, bytes.get(header + names?..)?);
    let mut types = types.get(..types_bytes?)?;
    let mut number = 1;
    while !types.is_empty() {
        let (name_at, info) = (word(types, 0)? as usize, word(types, 4)?);
        let kind = (info >> 24 & 0x1f) as u8;
        if kind == KIND_FUNCTION && is_name(names, name_at, name) {
            return Some(number);
        }
        types = types.get(TYPE_BYTES + more(kind, info as u16)?..)?;
        number += 1;
    }
    None
}

/// Bytes behind a type of a kind that has so many members; `None` for a kind that is not known.
fn more(kind: u8, members: u16) -> Option<usize> {
    let members = usize::from(members);
    match kind {
        // Pointer, forward, type name, volatile, const, restrict, function, float, type tag.
        2 | 7..=12 | 16 | 18 => Some(0),
        // Integer, variable, declaration tag.
        1 | 14 | 17 => Some(4),
        // Array.
        3 => Some(12),
        // Enumeration, prototype.
        6 | 13 => Some(8 * members),
        // Structure, union, section, enumeration of 64 bits.
        4 | 5 | 15 | 19 => Some(12 * members),
        _ => None,
    }
}

fn is_name(names: &[u8], at: usize, name: &str) -> bool {
    let rest = names
        .get(at..)
        .and_then(|names| names.strip_prefix(name.as_bytes()));
    rest.is_some_and(|rest| rest.first() == Some(&0))
}

fn word(bytes: &[u8], place: usize) -> Option<u32> {
    let bytes = bytes.get(place..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A structure of one member, a function `tag_of`, and another `tag`.
    fn types() -> Vec<u8> {
        let names = b"\0tag_of\0tag\0";
        let mut types: Vec<u32> = vec![0, 4 << 24 | 1, 4, 0, 0, 0];
        types.extend([1, 12 << 24, 0]);
        types.extend([8, 12 << 24, 0]);
        let bytes = 4 * types.len() as u32;
        let mut all = [&MAGIC[..], &[1, 0]].concat();
        for value in [24, 0, bytes, bytes, names.len() as u32] {
            all.extend(value.to_ne_bytes());
        }
        all.extend(types.iter().flat_map(|value| value.to_ne_bytes()));
        all.extend(names);
        all
    }

    #[test]
    fn a_function_is_found_by_its_whole_name() {
        let types = types();
        assert_eq!(function(&types, "tag_of"), Some(2));
        assert_eq!(function(&types, "tag"), Some(3));
        assert_eq!(function(&types, "ta"), None);
    }

    #[test]
    fn what_is_cut_is_not_read_beyond() {
        let types = types();
        for len in 0..types.len() - 1 {
            assert_eq!(function(&types[..len], "tag"), None, "{len}");
        }
        assert_eq!(function(&[0; 64], "tag"), None);
    }
}
