//! Test helper that modifies OpenPGP keys in ways that no program does: parses and writes their packets (RFC 9580,
//! 4).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{PUBLIC_KEY, PUBLIC_KEY_END};

/// Appends a string with its length as prefix.
pub(super) fn put_string(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend(u32::try_from(bytes.len()).expect("a length").to_be_bytes());
    to.extend(bytes);
}

/// The packets of an armored block, as tag and body. Supports the old format with gpg's lengths.
pub(super) fn packets(armour: &str) -> Vec<(u8, Vec<u8>)> {
    let body = armour.lines().skip(1).skip_while(|line| !line.is_empty());
    let body: String = body.take_while(|line| !line.starts_with(['=', '-'])).collect();
    let bytes = STANDARD.decode(body).expect("base64");
    let (mut rest, mut packets) = (bytes.as_slice(), Vec::new());
    while let Some((first, after)) = rest.split_first() {
        assert_eq!(first & 0xc0, 0x80, "the old format");
        let octets = 1_usize << (first & 3);
        let (length, after) = after.split_at(octets);
        let length = length.iter().fold(0, |length, octet| length << 8 | usize::from(*octet));
        let (body, after) = after.split_at(length);
        packets.push(((first & 0x3c) >> 2, body.to_vec()));
        rest = after;
    }
    packets
}

/// An armored key of these packets.
pub(super) fn key_of(packets: &[(u8, Vec<u8>)]) -> String {
    let mut bytes = Vec::new();
    for (tag, body) in packets {
        bytes.push(0x80 | tag << 2 | 2);
        put_string(&mut bytes, body);
    }
    format!("{PUBLIC_KEY}\n\n{}\n{PUBLIC_KEY_END}\n", STANDARD.encode(bytes))
}

/// The tag of a signature packet.
pub(super) const SIGNATURE: u8 = 2;
/// The tag of a subkey packet.
pub(super) const SUBKEY: u8 = 14;

/// Removes the back signature of a subkey from its binding signature: the unhashed subpacket 32.
pub(super) fn unconfirmed(signature: &[u8]) -> Vec<u8> {
    let number = |at: usize| usize::from(u16::from_be_bytes([signature[at], signature[at + 1]]));
    let unhashed = 6 + number(4);
    let (head, area) = signature.split_at(unhashed + 2);
    let (mut rest, tail) = area.split_at(number(unhashed));
    let mut kept = Vec::new();
    while let Some(first) = rest.first() {
        let (octets, length) = match first {
            0..=191 => (1, usize::from(*first)),
            192..=254 => (2, (usize::from(*first) - 192) * 256 + usize::from(rest[1]) + 192),
            255 => panic!("a subpacket of this length"),
        };
        let (packet, after) = rest.split_at(octets + length);
        if packet[octets] & 0x7f != 32 {
            kept.extend(packet);
        }
        rest = after;
    }
    let length = u16::try_from(kept.len()).expect("a length").to_be_bytes();
    assert!(kept.len() < number(unhashed), "the signature had a back signature");
    [&head[..unhashed], &length, &kept, tail].concat()
}
