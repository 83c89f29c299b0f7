//! The bytes of a `content`.

/// The bytes, and whether they must not be there: `!"text|00 0a|"`.
pub(super) fn read(value: &str) -> Option<(Vec<u8>, bool)> {
    let (value, negated) = match value.strip_prefix('!') {
        Some(rest) => (rest.trim_start(), true),
        None => (value, false),
    };
    let text = value.strip_prefix('"')?.strip_suffix('"')?;
    let bytes = bytes(text)?;
    (!bytes.is_empty()).then_some((bytes, negated))
}

/// Text, with bytes in hexadecimal between bars.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let (mut found, mut digits) = (Vec::new(), None);
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match (byte, &mut digits) {
            (b'|', None) => digits = Some(None),
            (b'|', Some(None)) => digits = None,
            (b' ', Some(None)) => {}
            (_, Some(high)) => {
                let digit = char::from(byte).to_digit(16)? as u8;
                match high.take() {
                    None => *high = Some(digit),
                    Some(first) => found.push(first << 4 | digit),
                }
            }
            (b'\\', None) => found.push(rest.next()?),
            (_, None) => found.push(byte),
        }
    }
    digits.is_none().then_some(found)
}
