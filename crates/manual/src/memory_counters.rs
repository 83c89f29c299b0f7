//! The page of what memory servers, and who splits packets, count.

use crate::module_docs::plain_links;
use crate::origin;
use crate::table::{code, table};
use twinpath_remote::{fast, requester, responder, server, store};

const HEAD: &str = "# Counters of memory servers

Where payloads wait in remote memory each end counts what happens. The switch tells of it in `report.json` under
`split.servers[].counters` and in `twinpath_memory_server_events_total`; a memory server tells its own counters when it
ends.
";

/// The page.
pub fn page() -> String {
    let back_offs = (
        fast::BACK_OFFS,
        "How often its share of the flows was cut, for the load of its link or for slow READs.",
    );
    let switch = requester::Counters::MEANINGS.iter().copied();
    format!(
        "{}{HEAD}\n## At the switch\n\n{}\n## At the switch, of memory of its own process\n\n{}\n\
         ## At a memory server: registration\n\n{}\n## At a memory server in software: requests\n\n{}",
        origin("crates/remote/src by their documentation"),
        of(switch.chain([back_offs])),
        of(store::Counters::MEANINGS.iter().copied()),
        of(server::Counters::MEANINGS.iter().copied()),
        of(responder::Counters::MEANINGS.iter().copied()),
    )
}

fn of(counters: impl Iterator<Item = (&'static str, &'static str)>) -> String {
    let row = |(name, meaning): (&str, &str)| vec![code(name), plain_links(meaning.trim())];
    table(
        &["counter", "meaning"],
        &counters.map(row).collect::<Vec<_>>(),
    )
}
