//! The page of drop reasons.

use crate::module_docs::plain_links;
use crate::origin;
use crate::table::{code, table};
use twinpath_core::DropReason;
use twinpath_core::drop_reason::DropKind;

const HEAD: &str = "# Drop reasons

Every packet that Twinpath does not forward is counted for one reason: in `report.json` under `drops`,
in the summary at the end of a run, and in the live table. Reasons are names; this page says what each
means.
";

/// The page.
pub fn page() -> String {
    let plain = |kind| {
        let is_plain = |reason: &DropReason| !matches!(reason, DropReason::Malformed(_));
        let reasons = DropReason::all().filter(is_plain);
        of(reasons.filter(move |reason| reason.kind() == kind))
    };
    let malformed = DropReason::all().filter(|reason| matches!(reason, DropReason::Malformed(_)));
    format!(
        "{}{HEAD}\n## Decisions\n\nA function decided about the packet, or the reason lies in it.\n\n{}\n\
         ## Losses\n\nThere was no room, or something broke: whoever sees these should look for the cause.\n\n{}\n\
         ## Packets that are malformed\n\nTheir bytes are no packet.\n\n{}",
        origin("crates/core/src/drop_reason.rs and crates/wire/src/malformed.rs"),
        plain(DropKind::Decision),
        plain(DropKind::Loss),
        of(malformed),
    )
}

fn of(reasons: impl Iterator<Item = DropReason>) -> String {
    let row = |reason: DropReason| vec![code(reason.name()), plain_links(reason.meaning())];
    table(
        &["reason", "meaning"],
        &reasons.map(row).collect::<Vec<_>>(),
    )
}
