//! Where in the file the values of a table stand, for what is only found wrong once it was read.

use std::ops::Range;
use toml::de::DeValue;

/// By path of keys below a table, as in `arrivals.rate_pps`.
#[derive(Debug, Default)]
pub(super) struct Places(Vec<(String, Range<usize>)>);

impl Places {
    /// Those of a table's values, and of the values of tables in it.
    pub fn of(table: &DeValue<'_>) -> Self {
        let mut places = Self::default();
        places.add(table, "");
        places
    }

    fn add(&mut self, value: &DeValue<'_>, above: &str) {
        for (key, value) in value.as_table().into_iter().flat_map(|table| table.iter()) {
            let path = format!("{above}{}", key.get_ref());
            self.add(value.get_ref(), &format!("{path}."));
            self.0.push((path, value.span()));
        }
    }

    /// Where a value stands; for one that is not there the nearest table that it would be in.
    pub fn at(&self, path: &str) -> Option<Range<usize>> {
        let place = self.0.iter().find(|(known, _)| known == path);
        match place {
            Some((_, place)) => Some(place.clone()),
            None => path.rsplit_once('.').and_then(|(above, _)| self.at(above)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toml::de::DeTable;

    #[test]
    fn values_are_found_by_path_or_the_table_that_they_would_be_in() {
        let text = "[traffic]\nflows = 3\n[traffic.tcp]\nack_every = 2\n";
        let all = DeTable::parse(text).expect("sound");
        let places = Places::of(all.get_ref().get("traffic").expect("there").get_ref());
        let at = |path| places.at(path).map(|place| &text[place]);
        assert_eq!(at("flows"), Some("3"));
        assert_eq!(at("tcp.ack_every"), Some("2"));
        assert_eq!(at("tcp.reset_share"), at("tcp"));
        assert_eq!(at("hosts.clients"), None);
    }
}
