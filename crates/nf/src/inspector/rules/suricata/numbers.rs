//! `byte_test`, `byte_jump` and `dsize`.

use crate::inspector::error::{Expected, Problem};
use crate::inspector::rules::item::{ByteJump, ByteTest, Compare, Encoding, ItemKind, Number};
use crate::inspector::rules::scope::Sizes;

/// Most bytes of a number that is not written in digits, and of one that is.
const MOST_BYTES: [u32; 2] = [8, 23];
/// Farthest that a number is from where the item before it ends.
const FARTHEST: i32 = 65_535;

/// `bytes, operator, value, offset, ...`
pub(in crate::inspector::rules) fn test(text: &str) -> Result<ItemKind, Problem> {
    let words: Vec<&str> = text.split(',').map(str::trim).collect();
    let [bytes, operator, value, offset, options @ ..] = &words[..] else {
        return Err(Problem::Expected(Expected::ByteTest));
    };
    let (operator, inverted) = match operator.strip_prefix('!') {
        Some("") => ("=", true),
        Some(operator) => (operator.trim(), true),
        None => (*operator, false),
    };
    let compare = match operator {
        "<" => Compare::Less,
        "<=" => Compare::AtMost,
        "=" => Compare::Equal,
        ">=" => Compare::AtLeast,
        ">" => Compare::Greater,
        "&" => Compare::And,
        "^" => Compare::Xor,
        _ => return Err(Problem::Expected(Expected::ByteTest)),
    };
    let mut rest = Rest::default();
    for option in options {
        rest.take(option)?;
    }
    let wrong = Problem::Expected(Expected::ByteTest);
    Ok(ItemKind::Test(ByteTest {
        number: rest.number(bytes, offset).ok_or(wrong.clone())?,
        compare,
        with: integer(value).ok_or(wrong)?,
        inverted,
    }))
}

/// `bytes, offset, ...`
pub(in crate::inspector::rules) fn jump(text: &str) -> Result<ItemKind, Problem> {
    let words: Vec<&str> = text.split(',').map(str::trim).collect();
    let [bytes, offset, options @ ..] = &words[..] else {
        return Err(Problem::Expected(Expected::ByteJump));
    };
    let wrong = || Problem::Expected(Expected::ByteJump);
    let (mut rest, mut multiplier, mut aligned, mut after) = (Rest::default(), 1, false, 0);
    for option in options {
        match option.split_once(' ') {
            Some(("multiplier", value)) => {
                multiplier = value.trim().parse().map_err(|_| wrong())?;
            }
            Some(("post_offset", value)) => {
                after = value.trim().parse().map_err(|_| wrong())?;
            }
            _ if *option == "align" => aligned = true,
            _ => rest.take(option)?,
        }
    }
    Ok(ItemKind::Jump(ByteJump {
        number: rest.number(bytes, offset).ok_or_else(wrong)?,
        multiplier,
        aligned,
        after,
    }))
}

/// Sizes of payloads: `4`, `!4`, `<4`, `>=4`, and `4<>8` or `4-8` of what lies between; `None` if the
/// text says nothing of the kind, or of packets without a payload alone.
pub(super) fn sizes(text: &str) -> Option<Sizes> {
    let text = text.trim();
    let (text, inverted) = match text.strip_prefix('!') {
        Some(rest) => (rest.trim(), true),
        None => (text, false),
    };
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|n| *n <= 65_535);
    let between = text.split_once("<>").or_else(|| text.split_once('-'));
    let (least, most) = if let Some((low, high)) = between {
        (number(low)? + 1, number(high)?.checked_sub(1)?)
    } else if let Some(rest) = text.strip_prefix("<=") {
        (0, number(rest)?)
    } else if let Some(rest) = text.strip_prefix(">=") {
        (number(rest)?, u32::MAX)
    } else if let Some(rest) = text.strip_prefix('<') {
        (0, number(rest)?.checked_sub(1)?)
    } else if let Some(rest) = text.strip_prefix('>') {
        (number(rest)? + 1, u32::MAX)
    } else {
        (number(text)?, number(text)?)
    };
    let is_some = least <= most && (inverted || most > 0);
    is_some.then_some(Sizes {
        least,
        most,
        inverted,
    })
}

/// What both may say of the number.
#[derive(Default)]
struct Rest {
    little: bool,
    text: bool,
    base: Option<u32>,
}

impl Rest {
    fn take(&mut self, option: &str) -> Result<(), Problem> {
        match option {
            "relative" | "big" => {}
            "little" => self.little = true,
            "string" => self.text = true,
            "dec" => self.base = Some(10),
            "hex" => self.base = Some(16),
            "oct" => self.base = Some(8),
            _ => return Err(Problem::Unsupported(option.to_owned())),
        }
        Ok(())
    }

    fn number(&self, bytes: &str, offset: &str) -> Option<Number> {
        let encoding = match (self.text, self.little) {
            (true, _) => Encoding::Text(self.base.unwrap_or(10)),
            (false, true) => Encoding::Little,
            (false, false) => Encoding::Big,
        };
        let most = MOST_BYTES[usize::from(self.text)];
        let bytes = bytes
            .parse()
            .ok()
            .filter(|bytes| (1..=most).contains(bytes))?;
        let offset: i32 = offset.parse().ok()?;
        (offset.abs() <= FARTHEST).then_some(Number {
            offset,
            bytes,
            encoding,
        })
    }
}

fn integer(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
