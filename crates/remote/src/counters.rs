//! Counters that have names.

/// Makes a type `Counters` of counters, each with its documentation.
macro_rules! counters {
    ($(#[$about:meta])+ => $($(#[doc = $doc:literal])+ $name:ident,)+) => {
        $(#[$about])+
        #[derive(Copy, Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Counters {
            /// What each counts, by name, for people.
            pub const MEANINGS: &'static [(&'static str, &'static str)] =
                &[$((stringify!($name), concat!($($doc),+))),+];

            /// All of them, with their names.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),+].into_iter()
            }

            /// Adds what was counted elsewhere.
            pub fn add(&mut self, other: &Self) {
                $(self.$name = self.$name.saturating_add(other.$name);)+
            }
        }
    };
}

pub(crate) use counters;
