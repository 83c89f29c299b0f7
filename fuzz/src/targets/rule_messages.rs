//! Any bytes as the body of a frame about rules: what reads writes back the same, and both sides
//! take it without a word.

use twinpath_core::{Instant, Pools};
use twinpath_rulecache::message::{MAX_MESSAGE_BYTES, messages};
use twinpath_rulecache::{
    ManagerConfig, RuleTable, Sides, SlowRules, SlowRulesConfig, TableConfig,
};

/// One input.
pub fn run(bytes: &[u8]) {
    let few = TableConfig {
        exact: 8,
        masked: 8,
        masks: 4,
        held: 4,
        ..TableConfig::default()
    };
    let manager = ManagerConfig {
        exact: 8,
        masked: 8,
        masks: 4,
        ..ManagerConfig::default()
    };
    let (mut table, mut effects) = (RuleTable::new(few), Vec::new());
    let config = SlowRulesConfig {
        manager,
        ..SlowRulesConfig::default()
    };
    let mut slow = SlowRules::new(config, Sides::KNOWN, Vec::new());
    let (mut pools, mut out) = (Pools::new(1, 1), Vec::new());
    for message in messages(bytes).flatten() {
        let mut written = [0; MAX_MESSAGE_BYTES];
        let length = message.write(&mut written).expect("room for the longest");
        assert_eq!(
            messages(&written[..length]).next(),
            Some(Ok(message.clone()))
        );
        table.message(&message, &mut effects);
        table.tick(Instant(1), Instant(1), &mut effects);
        slow.message(&message, Instant(1), &mut pools, &mut out);
    }
}
