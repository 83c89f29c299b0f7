//! All functions that a service can name. Each is declared in its folder and listed here.

use crate::descriptor::Descriptor;
use crate::{
    acl, firewall, inspector, kv_store, load_balancer, monitor, napt, nat64, nptv6, reassembler,
    router,
};

/// The functions.
pub const FUNCTIONS: [&Descriptor; 11] = [
    &firewall::FUNCTION,
    &reassembler::FUNCTION,
    &inspector::FUNCTION,
    &load_balancer::FUNCTION,
    &kv_store::FUNCTION,
    &acl::FUNCTION,
    &napt::FUNCTION,
    &nat64::FUNCTION,
    &nptv6::FUNCTION,
    &router::FUNCTION,
    &monitor::FUNCTION,
];

/// The function of this name.
pub fn function(name: &str) -> Option<&'static Descriptor> {
    let mut functions = FUNCTIONS.into_iter();
    functions.find(|function| function.name == name)
}

/// The functions' names, for messages.
pub fn names() -> String {
    FUNCTIONS.map(|function| function.name).join(", ")
}

/// The functions' names.
pub fn all_names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.into_iter().map(|function| function.name)
}
