//! Which ENI has a MAC address.

use twinpath_core::hash::HashKey;
use twinpath_core::wire::MacAddress;

/// Numbers of ENIs by MAC address: words of the address and the number, at most half of all places
/// taken.
#[derive(Clone, Debug)]
pub(crate) struct MacTable {
    places: Box<[u64]>,
    key: HashKey,
}

impl MacTable {
    /// A table of these; of two with the same address the first is found.
    pub fn new(macs: &[(MacAddress, u16)], seed: u64) -> Self {
        let count = (macs.len() * 2 + 2).next_power_of_two();
        let mut table = Self {
            places: vec![0; count].into(),
            key: HashKey::new(seed),
        };
        for &(mac, number) in macs {
            if table.get(mac).is_none() {
                let place = table.probe(mac);
                table.places[place] = word(mac) | (u64::from(number) + 1);
            }
        }
        table
    }

    #[inline]
    pub fn get(&self, mac: MacAddress) -> Option<u16> {
        let entry = self.places[self.probe(mac)];
        (entry as u16).checked_sub(1)
    }

    /// Where an address is, or the free place where it would be.
    #[inline]
    fn probe(&self, mac: MacAddress) -> usize {
        let wanted = word(mac);
        let last = self.places.len() - 1;
        let mut place = self.key.hash([wanted]) as usize & last;
        while self.places[place] != 0 && self.places[place] & !0xffff != wanted {
            place = (place + 1) & last;
        }
        place
    }
}

fn word(mac: MacAddress) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_be_bytes([a, b, c, d, e, f, 0, 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_number() {
        let mac = |number: u16| MacAddress([0, 0x1a, 0xc5, 0, (number >> 8) as u8, number as u8]);
        let macs: Vec<_> = (0..1000).map(|number| (mac(number), number)).collect();
        let table = MacTable::new(&macs, 3);
        assert!(
            macs.iter()
                .all(|&(mac, number)| table.get(mac) == Some(number))
        );
        assert_eq!(table.get(mac(1000)), None);
        assert_eq!(MacTable::new(&[], 3).get(MacAddress::ZERO), None);
        let zero = MacTable::new(&[(MacAddress::ZERO, 0)], 3);
        assert_eq!(zero.get(MacAddress::ZERO), Some(0));
    }
}
