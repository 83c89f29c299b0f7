//! Which ports the interfaces of a capture are.

use std::sync::Arc;
use twinpath_io::Interface;

/// So many interfaces are named that are called like no port.
const MOST_UNKNOWN: usize = 8;

/// By interface, as far as they are known, the number of its port.
#[derive(Default)]
pub(super) struct Numbers(Vec<u16>);

impl Numbers {
    /// Takes in interfaces that were not known yet; those that were stay where they are. Returns what is
    /// told of those that are called like no port of the service, if there are some.
    pub fn learn(&mut self, interfaces: &[Interface], ports: &[String]) -> Option<Arc<str>> {
        for place in self.0.len()..interfaces.len() {
            let number = self.of_new(place, interfaces, ports);
            self.0.push(number);
        }
        self.in_words(interfaces, ports)
    }

    /// How many interfaces are known.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The port of an interface.
    pub fn of(&self, interface: usize) -> u16 {
        let known = self.0.get(interface).copied();
        known.unwrap_or(interface as u16)
    }

    /// The port that is called like the interface. Where none is, a port that is no other interface's:
    /// packets of two cables must not seem to come by one.
    fn of_new(&self, place: usize, interfaces: &[Interface], ports: &[String]) -> u16 {
        let name = interfaces[place].name.as_ref();
        if let Some(port) = ports.iter().position(|port| Some(port) == name) {
            return port as u16;
        }
        // The same interface, as another section of the file has it.
        let mut before = interfaces[..place].iter();
        let same = name.and_then(|name| before.position(|one| one.name.as_ref() == Some(name)));
        if let Some(same) = same {
            return self.0[same];
        }
        let is_free = |number: &usize| {
            let has_name =
                |port: &String| interfaces.iter().any(|one| one.name.as_ref() == Some(port));
            !ports.get(*number).is_some_and(has_name) && !self.0.contains(&(*number as u16))
        };
        let mut own_first = std::iter::once(place).chain(0..);
        own_first.find(is_free).unwrap_or(place) as u16
    }

    fn in_words(&self, interfaces: &[Interface], ports: &[String]) -> Option<Arc<str>> {
        if ports.is_empty() {
            return None;
        }
        let mut unknown: Vec<(&String, u16)> = Vec::new();
        for (interface, number) in interfaces.iter().zip(&self.0) {
            let Some(name) = &interface.name else {
                continue;
            };
            if !ports.contains(name) && unknown.iter().all(|(other, _)| *other != name) {
                unknown.push((name, *number));
            }
        }
        let taken = |(name, number): &(&String, u16)| match ports.get(usize::from(*number)) {
            Some(port) => format!("of {name:?} as from {port}"),
            None => format!("of {name:?} as from a port {number} that the service does not name"),
        };
        let told: Vec<String> = unknown.iter().take(MOST_UNKNOWN).map(taken).collect();
        let more = match unknown.len().saturating_sub(MOST_UNKNOWN) {
            0 => String::new(),
            more => format!(", and so on for {more} more"),
        };
        let (ports, told) = (ports.join(", "), told.join(", "));
        let words = format!(
            "the capture has interfaces that are called like no port of the service ({ports}): packets were taken by their numbers, or by a port that no other interface is called like, {told}{more}"
        );
        (!unknown.is_empty()).then(|| words.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_io::Resolution;

    fn numbers(interfaces: &[&str], ports: &[&str]) -> (Vec<u16>, Option<Arc<str>>) {
        let interface = |name: &&str| Interface {
            name: (!name.is_empty()).then(|| str::to_owned(name)),
            link_type: 1,
            resolution: Resolution::MICROSECONDS,
        };
        let interfaces: Vec<_> = interfaces.iter().map(interface).collect();
        let ports: Vec<_> = ports.iter().map(|name| str::to_owned(name)).collect();
        let mut numbers = Numbers::default();
        let told = numbers.learn(&interfaces, &ports);
        (numbers.0, told)
    }

    #[test]
    fn no_two_interfaces_of_different_names_are_one_port() {
        let ports = ["inside", "outside"];
        for (interfaces, expected) in [
            (&["inside", "outside"][..], &[0, 1][..]),
            (&["outside", "inside"], &[1, 0]),
            (&["eth0", "eth1"], &[0, 1]),
            (&["eth0", "inside"], &[1, 0]),
            (&["eth0", "inside", "outside"], &[2, 0, 1]),
            (&["outside", "eth0"], &[1, 0]),
            (&["", "inside"], &[1, 0]),
            (&["", ""], &[0, 1]),
        ] {
            assert_eq!(numbers(interfaces, &ports).0, expected, "{interfaces:?}");
        }
        assert_eq!(numbers(&["b", "x", "y"], &["a", "b", "c"]).0, [1, 0, 2]);
        assert_eq!(numbers(&["x", "y", "z"], &[]).0, [0, 1, 2]);
    }

    /// Sections that describe the same interfaces in another order.
    #[test]
    fn an_interface_of_several_sections_is_one_and_told_once() {
        let (numbers, told) = numbers(&["eth0", "eth1", "eth1", "eth0"], &["inside", "outside"]);
        assert_eq!(numbers, [0, 1, 1, 0]);
        let told = told.expect("they are called like no port");
        assert_eq!(
            told.matches("of \"eth0\" as from inside").count(),
            1,
            "{told}"
        );
        assert_eq!(told.matches("eth1").count(), 1, "{told}");
    }

    #[test]
    fn what_is_known_stays_where_it_is() {
        let interface = |name: &str| Interface {
            name: Some(name.to_owned()),
            link_type: 1,
            resolution: Resolution::MICROSECONDS,
        };
        let ports = ["inside".to_owned(), "outside".to_owned()];
        let mut numbers = Numbers::default();
        numbers.learn(&[interface("eth0")], &ports);
        numbers.learn(&[interface("eth0"), interface("inside")], &ports);
        assert_eq!((numbers.count(), numbers.of(0), numbers.of(1)), (2, 0, 0));
    }
}
