//! State words are mostly so few that a call would cost more than the work on them.

/// Copies words.
///
/// # Panics
/// If the lengths differ.
#[inline(always)]
pub fn copy_few(to: &mut [u32], from: &[u32]) {
    assert_eq!(to.len(), from.len());
    match from.len() {
        0 => {}
        1 => to[0] = from[0],
        2..=4 => copy_ends::<2>(to, from),
        5..=8 => copy_ends::<4>(to, from),
        9..=16 => copy_ends::<8>(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// The first `N` and the last `N`, which may overlap.
#[inline(always)]
fn copy_ends<const N: usize>(to: &mut [u32], from: &[u32]) {
    if let (Some(to), Some(from)) = (to.first_chunk_mut::<N>(), from.first_chunk::<N>()) {
        *to = *from;
    }
    if let (Some(to), Some(from)) = (to.last_chunk_mut::<N>(), from.last_chunk::<N>()) {
        *to = *from;
    }
}

/// Whether all words are zero.
#[inline(always)]
pub fn are_zero(words: &[u32]) -> bool {
    match words.len() {
        2..=4 => ends_are_zero::<2>(words),
        5..=8 => ends_are_zero::<4>(words),
        _ => words.iter().all(|&word| word == 0),
    }
}

#[inline(always)]
fn ends_are_zero<const N: usize>(words: &[u32]) -> bool {
    words.first_chunk::<N>() == Some(&[0; N]) && words.last_chunk::<N>() == Some(&[0; N])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_copied_and_looked_at() {
        for len in 0..40 {
            let from: Vec<u32> = (1..=len).collect();
            let mut to = vec![0; from.len()];
            assert!(are_zero(&to));
            copy_few(&mut to, &from);
            assert_eq!(to, from);
            for at in 0..from.len() {
                let mut words = vec![0; from.len()];
                words[at] = 1;
                assert!(!are_zero(&words), "word {at} of {len}");
            }
        }
    }
}
