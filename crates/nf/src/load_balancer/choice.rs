//! Which backend a packet is given to, and why, in words: for whoever follows it.

use super::config::{Config, Service};
use super::connection::{Connection, Kind};

impl Config {
    /// What state words before and behind a packet tell of the choice; nothing for a flow to no service.
    pub(super) fn choice(&self, before: &[u32], after: &[u32]) -> Option<String> {
        let connection = balanced(after)?;
        let (service, backend) = self.backend_of(&connection)?;
        let known = balanced(before).filter(|known| !is_new(known, &connection));
        let why = match known {
            None => hashed(service),
            Some(known) if known.row == connection.row => {
                "as the flow's entry says: the connection was given to it before".to_owned()
            }
            Some(known) => {
                let gone = self.backend_of(&known);
                let gone = gone.map_or("a backend".to_owned(), |(_, gone)| gone);
                format!(
                    "chosen anew by consistent hashing, as the flow's entry names {gone}, which is gone: {}",
                    candidates(service)
                )
            }
        };
        Some(format!("backend {backend} of {}, {why}", service.name()))
    }

    /// A connection's service, and its backend in words.
    fn backend_of<'c>(&'c self, connection: &Connection) -> Option<(&'c Service, String)> {
        let rows = |service: &'c Service| service.backends.iter().map(move |one| (service, one));
        let mut rows = self.services.iter().flat_map(rows);
        let (service, backend) = rows.nth(connection.row.into())?;
        Some((service, backend.endpoint.to_string()))
    }
}

/// A flow's connection to a service, if it is one.
fn balanced(words: &[u32]) -> Option<Connection> {
    Connection::read(words).filter(|connection| connection.kind != Kind::Passing)
}

/// Whether a client has opened the connection again in place of one that is over, or was silent for too
/// long: of one that goes on nobody forgets that it was answered.
fn is_new(before: &Connection, after: &Connection) -> bool {
    let is_over = before.is_ending() || before.fin_of_client;
    let goes_on = after.is_ending() || after.fin_of_client;
    after.unanswered && (!before.unanswered || is_over && !goes_on)
}

fn hashed(service: &Service) -> String {
    let candidates = candidates(service);
    format!("chosen for a new connection, by consistent hashing: {candidates}")
}

/// Between which backends a choice is.
fn candidates(service: &Service) -> String {
    match service.epochs.as_slice() {
        [only] => match only.members.len() {
            1 => "1 backend takes new connections".to_owned(),
            many => format!("{many} backends take new connections, by their weights"),
        },
        _ => "of those that take new connections at this time, by their weights".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::ReturnPath;
    use super::super::protocol::Protocol;
    use super::*;

    const TEXT: &str = "services = [\n\
        { vip = '192.0.2.1:80', protocol = 'tcp', backends = [{ endpoint = '10.1.0.2:80' }, { endpoint = '10.1.0.3:80' }, { endpoint = '10.1.0.4:80', drained = true }] },\n\
        { vip = '192.0.2.2:80', protocol = 'tcp', backends = [{ endpoint = '10.2.0.2:80' }], changes = [{ at = '1s', add = '10.2.0.3:80' }] },\n\
        ]";

    const KIND: Kind = Kind::Service(Protocol::Tcp, ReturnPath::Through);

    fn words(connection: &Connection) -> [u32; 2] {
        let mut words = [0; 2];
        connection.write(&mut words);
        words
    }

    #[test]
    fn why_a_backend_was_chosen_follows_from_words() {
        let config: Config = toml::from_str(TEXT).expect("sound");
        let known = |row| Connection::new(KIND, row);
        let opened = |row| Connection {
            unanswered: true,
            ..known(row)
        };
        let closed = Connection {
            closed: true,
            ..known(1)
        };
        let nothing = [0; 2];
        for (before, after, expected) in [
            (
                nothing,
                words(&opened(1)),
                "backend 10.1.0.3:80 of 192.0.2.1:80/tcp, chosen for a new connection, by consistent hashing: 2 backends take new connections, by their weights",
            ),
            (
                words(&known(1)),
                words(&known(1)),
                "backend 10.1.0.3:80 of 192.0.2.1:80/tcp, as the flow's entry says: the connection was given to it before",
            ),
            (
                words(&opened(1)),
                words(&opened(1)),
                "backend 10.1.0.3:80 of 192.0.2.1:80/tcp, as the flow's entry says: the connection was given to it before",
            ),
            (
                words(&known(2)),
                words(&known(0)),
                "backend 10.1.0.2:80 of 192.0.2.1:80/tcp, chosen anew by consistent hashing, as the flow's entry names 10.1.0.4:80, which is gone: 2 backends take new connections, by their weights",
            ),
            (
                words(&closed),
                words(&opened(1)),
                "backend 10.1.0.3:80 of 192.0.2.1:80/tcp, chosen for a new connection, by consistent hashing: 2 backends take new connections, by their weights",
            ),
            (
                nothing,
                words(&opened(4)),
                "backend 10.2.0.3:80 of 192.0.2.2:80/tcp, chosen for a new connection, by consistent hashing: of those that take new connections at this time, by their weights",
            ),
        ] {
            assert_eq!(config.choice(&before, &after).as_deref(), Some(expected));
        }
        let passing = words(&Connection::new(Kind::Passing, 0));
        for after in [nothing, passing] {
            assert_eq!(config.choice(&nothing, &after), None);
        }
        assert_eq!(config.choice(&[], &[]), None);
    }
}
