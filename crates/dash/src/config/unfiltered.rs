//! Access lists that wait, while the packets that they are for pass.

use super::store::Store;
use super::warnings::{Warning, Warnings};
use crate::objects::*;

impl Store {
    /// What is worth a look of what is in force, and of access lists that are not in force yet: what they
    /// would refuse passes.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        const STAGE: &str =
            "waits: until then the ENI's packets pass as if this stage were not bound so";
        const RULE: &str = "waits: until then packets pass its group as if the rule were not there";
        let snapshot = self.snapshot();
        let configuration = &snapshot.configuration;
        let mut warnings = Warnings::default();
        for (key, _) in self.waiting() {
            let message = match key {
                Key::AclIn(stage) | Key::AclOut(stage)
                    if configuration.enis.get(&stage.eni).is_some() =>
                {
                    STAGE
                }
                Key::AclRule(rule) if configuration.acl_groups.get(&rule.group).is_some() => RULE,
                _ => continue,
            };
            warnings.tell(key.clone(), None, message);
        }
        let mut all = warnings.into_list();
        all.extend(configuration.warnings());
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::warnings::tests::{GOOD, applied};
    use super::*;

    fn warnings(texts: &[&str]) -> Vec<String> {
        let store = applied(texts);
        store.warnings().iter().map(Warning::to_string).collect()
    }

    #[test]
    fn an_eni_whose_access_lists_wait_is_told_to_pass_its_packets() {
        let binding = r#"{"DASH_ACL_OUT_TABLE:one:1": {"v4_acl_group_id": "list"}}"#;
        let told = "DASH_ACL_OUT_TABLE:one:1: waits: until then the ENI's packets pass as if this stage were not bound so";
        assert_eq!(warnings(&[GOOD, binding]), [told]);
        let list = r#"{
            "DASH_ACL_GROUP_TABLE:list": {"ip_version": "ipv4"},
            "DASH_ACL_RULE_TABLE:list:1": {"priority": 1, "action": "allow", "terminating": true}}"#;
        assert_eq!(warnings(&[GOOD, binding, list]), [""; 0]);
        let denying = r#"{"DASH_ACL_RULE_TABLE:list:0": {"priority": 0, "action": "deny", "terminating": true, "src_tag": "bad"}}"#;
        let told = "DASH_ACL_RULE_TABLE:list:0: waits: until then packets pass its group as if the rule were not there";
        assert_eq!(warnings(&[GOOD, binding, list, denying]), [told]);
        // Where there is no such ENI nothing passes.
        assert_eq!(warnings(&["{}", binding]), [""; 0]);
    }
}
