//! Counters that have names.

/// Makes a type `Counters` of counters, each with its documentation.
macro_rules! counters {
    ($(#[$about:meta])+ => $($(#[$doc:meta])+ $name:ident,)+) => {
        $(#[$about])+
        #[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])+ pub $name: u64,)+
        }

        impl Counters {
            /// All of them, with their names.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),+].into_iter()
            }
        }
    };
}

pub(crate) use counters;
