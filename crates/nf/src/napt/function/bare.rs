//! What has no ports: it is translated only where one external address stands for one host.

use super::super::sides::Course;
use super::Napt;
use twinpath_core::DropReason;
use twinpath_core::wire::Address;
use twinpath_rulecache::{Recorded, Verdict};

impl Napt {
    /// Translates the addresses of a packet without ports, or drops it.
    pub(super) fn translate_bare(
        &mut self,
        packet: &mut Recorded<'_>,
        course: Course,
        reason: DropReason,
    ) -> Verdict {
        if course.is_past() {
            return Verdict::Forward;
        }
        match self.bare_addresses(packet, course) {
            Some((source, destination)) => {
                packet.set_source_address(source);
                packet.set_destination_address(destination);
                Verdict::Forward
            }
            None => {
                self.counters.untranslatable += 1;
                Verdict::Drop(reason)
            }
        }
    }

    fn bare_addresses(
        &self,
        packet: &mut Recorded<'_>,
        course: Course,
    ) -> Option<(Address, Address)> {
        let forwards = self.external.forwards();
        let (source, destination) = (packet.source().address, packet.destination().address);
        match course {
            Course::Past | Course::Direct | Course::Across(_) => None,
            Course::Out => Some((forwards.address(source)?, destination)),
            Course::In(_) => Some((source, forwards.host(destination)?)),
            Course::Hairpin(_) => Some((forwards.address(source)?, forwards.host(destination)?)),
        }
    }
}
