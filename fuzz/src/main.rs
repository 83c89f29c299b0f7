//! A target under libFuzzer: the environment variable `FUZZ_TARGET` says which.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use twinpath_fuzz::Target;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names a target");
    Target::named(&name).expect("a target of this name")
});

fuzz_target!(|bytes: &[u8]| TARGET.run(bytes));
