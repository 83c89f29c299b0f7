//! One thing after the other: what ports, cores and agents have in common.

use crate::time::Time;

/// Serves in order of arrival, one at a time.
#[derive(Clone, Debug, Default)]
pub struct Server {
    free_at: Time,
    busy: Time,
}

impl Server {
    /// When what arrives now and takes `duration` is done.
    pub fn serve(&mut self, now: Time, duration: Time) -> Time {
        self.free_at = self.free_at.max(now) + duration;
        self.busy += duration;
        self.free_at
    }

    /// How long what arrives now would wait.
    pub fn wait(&self, now: Time) -> Time {
        self.free_at.since(now)
    }

    /// Time spent serving, up to the end of what was accepted.
    pub fn busy(&self) -> Time {
        self.busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_while_it_is_busy_waits() {
        let mut server = Server::default();
        assert_eq!(server.serve(Time(10), Time(5)), Time(15));
        assert_eq!(server.wait(Time(12)), Time(3));
        assert_eq!(server.serve(Time(12), Time(5)), Time(20));
        assert_eq!(server.serve(Time(100), Time(5)), Time(105));
        assert_eq!(server.busy(), Time(15));
    }
}
