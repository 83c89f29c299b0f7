//! The machine: packets in stages, registers that can be touched once a cycle.

/// What the stages do.
pub trait Program {
    /// What moves through them.
    type Packet;

    /// A packet is in this stage, in this cycle.
    fn stage(&mut self, stage: usize, cycle: u64, packet: &mut Self::Packet);
}

/// Packets, each in a stage of its own.
#[derive(Debug)]
pub struct Pipeline<P> {
    stages: Vec<Option<P>>,
    cycle: u64,
}

impl<P> Pipeline<P> {
    /// An empty pipeline of so many stages.
    pub fn new(stages: usize) -> Self {
        Self {
            stages: (0..stages.max(1)).map(|_| None).collect(),
            cycle: 0,
        }
    }

    /// One cycle: every packet moves on, `next` enters, each stage works. Answers with the packet that
    /// has left the last stage.
    pub fn tick<R: Program<Packet = P>>(&mut self, next: Option<P>, program: &mut R) -> Option<P> {
        self.cycle += 1;
        self.stages.rotate_right(1);
        let left = std::mem::replace(&mut self.stages[0], next);
        for (stage, packet) in self.stages.iter_mut().enumerate() {
            if let Some(packet) = packet {
                program.stage(stage, self.cycle, packet);
            }
        }
        left
    }

    /// Cycles so far.
    pub fn cycle(&self) -> u64 {
        self.cycle
    }

    /// Whether no packet is inside.
    pub fn is_empty(&self) -> bool {
        self.stages.iter().all(Option::is_none)
    }
}

/// An array of registers in one stage, with the stateful ALU in front of it.
#[derive(Debug)]
pub struct Registers<T> {
    values: Vec<T>,
    touched: u64,
}

impl<T: Clone + Default> Registers<T> {
    /// So many registers, all zero.
    pub fn new(count: usize) -> Self {
        Self {
            values: vec![T::default(); count],
            touched: 0,
        }
    }

    /// Reads and changes one register, in one go: all that a stateful ALU can do.
    ///
    /// # Panics
    /// On a second access in the same cycle, which no chip could do.
    pub fn access<A>(&mut self, cycle: u64, index: usize, change: impl FnOnce(&mut T) -> A) -> A {
        assert!(self.touched < cycle, "one access a cycle");
        self.touched = cycle;
        change(&mut self.values[index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Trace(Vec<(u64, usize, char)>);

    impl Program for Trace {
        type Packet = char;
        fn stage(&mut self, stage: usize, cycle: u64, packet: &mut char) {
            self.0.push((cycle, stage, *packet));
        }
    }

    #[test]
    fn packets_are_in_different_stages_in_the_same_cycle() {
        let (mut pipeline, mut trace) = (Pipeline::new(2), Trace(Vec::new()));
        let left: Vec<_> = [Some('a'), Some('b'), None, None]
            .map(|next| pipeline.tick(next, &mut trace))
            .into();
        assert_eq!(left, [None, None, Some('a'), Some('b')]);
        assert_eq!(
            trace.0,
            [(1, 0, 'a'), (2, 0, 'b'), (2, 1, 'a'), (3, 1, 'b')]
        );
        assert!(pipeline.is_empty());
    }

    #[test]
    #[should_panic(expected = "one access a cycle")]
    fn a_register_array_is_touched_once_a_cycle() {
        let mut registers = Registers::<u32>::new(2);
        registers.access(1, 0, |value| *value += 1);
        registers.access(1, 1, |value| *value += 1);
    }
}
