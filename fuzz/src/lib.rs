//! Fuzz targets: each takes whatever comes, and panics where a parser, or what is behind it, does wrong.
//!
//! `cargo xtask fuzz` looks with libFuzzer for inputs that take ways that none took before; what is worth
//! keeping is in `corpus`. Tests [replay](replay) what is kept, and changed copies of it.
#![forbid(unsafe_code)]

#[cfg(test)]
mod replay;

/// What takes inputs.
#[derive(Copy, Clone)]
pub enum Target {
    /// Any bytes.
    Bytes(fn(&[u8])),
    /// Any text: of bytes, all in front of the first that are none.
    Text(fn(&str)),
}

impl Target {
    /// The one of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let mut all = ALL.iter();
        all.find(|(known, _)| *known == name).map(|(_, one)| *one)
    }

    /// Takes one input.
    ///
    /// # Panics
    /// Something does wrong.
    pub fn run(self, bytes: &[u8]) {
        match self {
            Self::Bytes(run) => run(bytes),
            Self::Text(run) => bytes
                .utf8_chunks()
                .next()
                .map_or((), |text| run(text.valid())),
        }
    }
}

/// All targets, each a file in `targets` and a test of its name.
macro_rules! targets {
    ($($name:ident($kind:ident),)*) => {
        mod targets {
            $(pub mod $name;)*
        }

        /// All, by name.
        pub const ALL: &[(&str, Target)] = &[
            $((stringify!($name), Target::$kind(targets::$name::run)),)*
        ];

        #[cfg(test)]
        mod tests {
            $(
                #[test]
                fn $name() {
                    crate::replay::replay(stringify!($name));
                }
            )*
        }
    };
}

targets! {
    access_list(Text),
    capture(Bytes),
    dash(Bytes),
    dash_config(Bytes),
    dissect(Bytes),
    inspector_rules(Text),
    link_header(Bytes),
    machine(Bytes),
    node(Bytes),
    operator_changes(Bytes),
    operator_lines(Bytes),
    plan_file(Text),
    registration(Bytes),
    requester(Bytes),
    responder(Bytes),
    rewrite(Bytes),
    roce(Bytes),
    route_file(Text),
    rule_messages(Bytes),
    service_file(Text),
    tunnel(Bytes),
}
