//! Groups of users, by name or number.

use std::str::FromStr;

/// Where the system keeps them.
const GROUPS: &str = "/etc/group";

/// A group of users.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Group(pub u32);

impl FromStr for Group {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if let Ok(number) = name.parse() {
            return Ok(Self(number));
        }
        let groups =
            std::fs::read_to_string(GROUPS).map_err(|error| format!("{GROUPS}: {error}"))?;
        number_in(&groups, name).map(Self).ok_or_else(|| {
            format!("no group in {GROUPS} has that name: expected one of there, or a number")
        })
    }
}

/// The number of a group in a file whose lines are `name:password:number:members`.
fn number_in(groups: &str, name: &str) -> Option<u32> {
    let mut lines = groups.lines().map(|line| line.split(':'));
    lines.find_map(|mut parts| (parts.next() == Some(name)).then(|| parts.nth(1)?.parse().ok())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_by_name_and_number() {
        let groups = "root:x:0:\nnetdev:x:106:ann,bob\nodd\n";
        assert_eq!(number_in(groups, "netdev"), Some(106));
        assert_eq!(number_in(groups, "root"), Some(0));
        assert_eq!(number_in(groups, "odd"), None);
        assert_eq!("42".parse(), Ok(Group(42)));
        assert_eq!("root".parse(), Ok(Group(0)));
        assert!("no such group".parse::<Group>().is_err());
    }
}
