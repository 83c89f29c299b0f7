//! Fragments.

use super::rewriting::{datagram_in, set_ether_type};
use super::{Course, Nat64};
use crate::napt::core::{Datagram as DatagramName, FragmentTranslation, Part};
use crate::nat64::datagram::Datagram;
use crate::nat64::ends::Ends;
use twinpath_core::wire::{Address, Endpoint, dissect, fields};
use twinpath_core::{Instant, Packet};
use twinpath_rulecache::{Answers, Recorded, Verdict};

impl Nat64 {
    /// A fragment: the first is translated as a whole packet, others as it was.
    pub(super) fn translate_part(
        &mut self,
        packet: &mut Recorded<'_>,
        course: Course,
        part: Part,
        now: Instant,
        answers: &mut Answers<'_>,
    ) -> Result<(), Verdict> {
        let name = part.datagram;
        let Some(kind) = part.kind else {
            return self.follow(packet, course, &name, now, answers);
        };
        let result = self.translate(packet, course, kind, now, answers);
        match result {
            Ok(()) => {
                let packet = packet.whole();
                let became = self.napt.fragments.lead(name, became(packet), now);
                number(packet, &became);
                self.let_go(&became, &name, now, answers);
            }
            Err(Verdict::Drop(_)) => self.napt.fragments.held.give_up(&name, now),
            Err(_) => {}
        }
        result
    }

    fn follow(
        &mut self,
        packet: &mut Recorded<'_>,
        course: Course,
        name: &DatagramName,
        now: Instant,
        answers: &mut Answers<'_>,
    ) -> Result<(), Verdict> {
        let known = self.napt.fragments.became(name, now);
        let addresses = known.map(|known| (known.source, known.destination));
        let addresses = addresses.or_else(|| self.without_ports(course, name));
        let Some((source, destination)) = addresses else {
            let bytes = packet.quote().bytes();
            self.napt.fragments.held.keep(*name, bytes, now);
            return Err(Verdict::Consumed);
        };
        if let Course::Hairpin(..) = course {
            packet.set_source_address(source);
            packet.set_destination_address(destination);
            self.counters.hairpinned += 1;
            return Ok(());
        }
        self.check_time_to_live(packet, now, answers)?;
        let new = bare_ends(source, destination);
        self.rewrite(packet.whole(), new, new, answers)?;
        self.count_translated(new);
        match known {
            Some(known) => number(packet.whole(), &known),
            None => {
                let became = became(packet.whole());
                self.napt.fragments.remember(*name, became, now);
            }
        }
        Ok(())
    }

    /// The addresses of a datagram whose first fragment has not come, where they follow from those
    /// that it has.
    fn without_ports(&self, course: Course, name: &DatagramName) -> Option<(Address, Address)> {
        let own = || self.napt.external.only_address(name.source);
        match course {
            Course::Out(v4) => Some((own()?, v4)),
            Course::In(_) => {
                let host = self.napt.external.forwards().host(name.destination)?;
                Some((self.settings.embedding.embed(name.source), host))
            }
            Course::Hairpin(_, v4) => {
                let host = self.napt.external.forwards().host(v4)?;
                Some((self.settings.embedding.embed(own()?), host))
            }
            Course::Past => None,
        }
    }

    fn count_translated(&mut self, new: Ends) {
        match new.source.address.is_v4() {
            true => self.counters.translated_out += 1,
            false => self.counters.translated_in += 1,
        }
    }

    /// What came before the first of its datagram goes on behind it.
    fn let_go(
        &mut self,
        became: &FragmentTranslation,
        name: &DatagramName,
        now: Instant,
        answers: &mut Answers<'_>,
    ) {
        let new = bare_ends(became.source, became.destination);
        let keeps_version = name.source.is_v4() == became.source.is_v4();
        let mut held = std::mem::take(&mut self.napt.fragments.held);
        held.release(name, now, |bytes| {
            let Ok(layout) = dissect(bytes) else {
                return;
            };
            if keeps_version {
                became.rewrite(bytes, &layout);
                self.counters.hairpinned += u64::from(answers.release(bytes));
                return;
            }
            let l3 = usize::from(layout.l3);
            let datagram = datagram_in(&bytes[l3..layout.end as usize], layout.network);
            let [buffer, _] = &mut self.buffers;
            let out = buffer.get_mut(l3..).unwrap_or_default();
            let to_v4 = became.source.is_v4();
            let written = datagram
                .and_then(Datagram::forwarded)
                .and_then(|part| match to_v4 {
                    true => part.write_v4(new, new, out),
                    false => part.write_v6(new, new, out),
                });
            let is_gone = written.is_ok_and(|length| {
                buffer[..l3].copy_from_slice(&bytes[..l3]);
                set_ether_type(&mut buffer[..l3], to_v4);
                let frame = &mut buffer[..l3 + length];
                if let Ok(layout) = dissect(frame) {
                    became.number(frame, &layout);
                }
                answers.release(frame)
            });
            match (is_gone, to_v4) {
                (false, _) => self.counters.untranslatable += 1,
                (true, true) => self.counters.translated_out += 1,
                (true, false) => self.counters.translated_in += 1,
            }
        });
        self.napt.fragments.held = held;
    }
}

/// The ends of a fragment, which has no ports.
fn bare_ends(source: Address, destination: Address) -> Ends {
    let bare = |address| Endpoint::new(address, 0);
    Ends {
        source: bare(source),
        destination: bare(destination),
    }
}

/// What the fragment became that a packet is now.
fn became(packet: &Packet) -> FragmentTranslation {
    FragmentTranslation {
        source: packet.source().address,
        destination: packet.destination().address,
        identification: fields::identification(packet.bytes(), &packet.layout),
        is_led: false,
        shard: None,
    }
}

/// Gives a fragment its datagram's number.
fn number(packet: &mut Packet, became: &FragmentTranslation) {
    let layout = packet.layout;
    became.number(packet.frame.bytes_mut(), &layout);
}
