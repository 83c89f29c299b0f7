//! What keeps the protocol right, each of which the model checker can take away.

/// One safeguard of the protocol.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Safeguard {
    /// Messages of one generation never touch another.
    Generations,
    /// A pull during which another packet passed is cancelled (SwitchNIC §4.2).
    Cancel,
    /// The frozen value is sent until it is acknowledged (SwitchNIC §4.3).
    WriteBack,
    /// A slot freezes before the next packet (SwitchNIC §4.4).
    Freeze,
    /// An idle slot is written back, not just freed.
    TtlWriteBack,
    /// Frames that overtook others are dropped.
    Fifo,
}

impl Safeguard {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Generations,
        Self::Cancel,
        Self::WriteBack,
        Self::Freeze,
        Self::TtlWriteBack,
        Self::Fifo,
    ];

    /// The name by which the command takes it away.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Generations => "generations",
            Self::Cancel => "cancel",
            Self::WriteBack => "write-back",
            Self::Freeze => "freeze",
            Self::TtlWriteBack => "ttl-write-back",
            Self::Fifo => "fifo",
        }
    }
}

/// Which safeguards are in force. The data plane is only ever built with [`All`].
pub trait Safeguards {
    /// Whether this safeguard is in force.
    fn keeps(&self, safeguard: Safeguard) -> bool;
}

/// Every safeguard: what production runs with. Costs nothing.
#[derive(Copy, Clone, Debug, Default)]
pub struct All;

impl Safeguards for All {
    #[inline(always)]
    fn keeps(&self, _: Safeguard) -> bool {
        true
    }
}

/// All but at most one: for the model checker, to show what each is good for.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Without(pub Option<Safeguard>);

impl Safeguards for Without {
    fn keeps(&self, safeguard: Safeguard) -> bool {
        self.0 != Some(safeguard)
    }
}
