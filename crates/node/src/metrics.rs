//! `/metrics` and `/healthz` of a service that runs.
//!
//! `/metrics` tells the figures that a report would have at that moment, for Prometheus; they are
//! asked for at most five times a second, however often somebody reads them. `/healthz` says 200
//! while packets pass as they should, else 503 and why.

use crate::health::Health;
use crate::http::{Response, Server};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant as WallClock};
use twinpath_control::report::Report;
use twinpath_control::report::metrics::{CONTENT_TYPE, metrics};

/// Figures are as old as this at most.
const AGE: Duration = Duration::from_millis(200);

/// What tells the figures of the run at the moment, or why it cannot.
pub(crate) type Figures = dyn Fn() -> Result<Report, String> + Send + Sync;

/// Listens at an address.
///
/// # Errors
/// It cannot be had.
pub(crate) fn listen(
    address: SocketAddr,
    health: Arc<Mutex<Health>>,
    figures: Box<Figures>,
) -> io::Result<Server> {
    let recent = Recent {
        figures,
        told: Mutex::default(),
    };
    let answers = move |path: &str| match path {
        "/metrics" => recent.answer(),
        "/healthz" => of_health(&health.lock().unwrap_or_else(PoisonError::into_inner)),
        _ => Response::text(404, "expected /metrics or /healthz\n"),
    };
    Server::listen(address, Arc::new(answers))
}

fn of_health(health: &Health) -> Response {
    let status = if health.is_good() { 200 } else { 503 };
    let mut text = format!("{}\n", health.phase.name());
    for problem in &health.problems {
        text.push_str(problem);
        text.push('\n');
    }
    Response::text(status, text)
}

/// What was told last, and when.
struct Recent {
    figures: Box<Figures>,
    told: Mutex<Option<(WallClock, String)>>,
}

impl Recent {
    /// Who comes while somebody else asks waits for the same answer.
    fn answer(&self) -> Response {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = told.as_ref().filter(|(at, _)| at.elapsed() < AGE);
        let text = match fresh {
            Some((_, text)) => text.clone(),
            None => match (self.figures)() {
                Ok(report) => {
                    let text = metrics(&report);
                    *told = Some((WallClock::now(), text.clone()));
                    text
                }
                Err(why) => return Response::text(503, format!("{why}\n")),
            },
        };
        Response {
            status: 200,
            content_type: CONTENT_TYPE,
            body: text,
        }
    }
}
