//! Signatures of OpenPGP (RFC 9580), as gpg makes them for git, and the keys that may make them.
//!
//! A signature counts when a key of the file, or a subkey that belongs to one, made it, and that key says of itself that it
//! signs, is not revoked, and was valid when the commit was made. What a key says of itself counts only with a signature of
//! its own that is sound. There is no web of trust: what is in the file is trusted.

use pgp::composed::{Deserializable, DetachedSignature, SignedPublicKey, SignedPublicSubKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Signature, SignatureType, SignatureVersion, SubpacketData};
use pgp::ser::Serialize as _;
use pgp::types::{EcdsaPublicParams, KeyDetails, PublicParams, SignedUser, Tag};

use super::{Kind, Signer, Unverified};

/// How the armour begins.
pub(super) const BEGIN: &str = "-----BEGIN PGP SIGNATURE-----";
/// The least bits of an RSA key.
const RSA_BITS: u16 = 2048;

/// A key of the file, with its subkeys and what it says of itself.
#[derive(Debug, Clone)]
pub(super) struct Certificate(SignedPublicKey);

/// Reads an armoured block, which may hold several keys.
pub(super) fn certificates(armour: &str) -> Result<Vec<Certificate>, String> {
    let (keys, _) = SignedPublicKey::from_armor_many(armour.as_bytes()).map_err(|error| error.to_string())?;
    let keys: Vec<_> =
        keys.map(|key| key.map(Certificate)).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    if keys.is_empty() { Err("it holds no key".to_owned()) } else { Ok(keys) }
}

/// Puts copies of one key together, and what each of them says: a revocation counts whichever copy has it, and the newest
/// statement whichever comes first.
pub(super) fn merged(copies: Vec<Certificate>) -> Vec<Certificate> {
    let mut keys: Vec<Certificate> = Vec::new();
    for Certificate(mut copy) in copies {
        let fingerprint = copy.primary_key.fingerprint();
        // A key may also say things twice within one copy, so that each is put together from nothing.
        let users = std::mem::take(&mut copy.details.users);
        let subkeys = std::mem::take(&mut copy.public_subkeys);
        let key = match keys.iter().position(|key| key.0.primary_key.fingerprint() == fingerprint) {
            Some(index) => {
                let mut known = keys.get_mut(index);
                if let Some(Certificate(known)) = &mut known {
                    known.details.revocation_signatures.append(&mut copy.details.revocation_signatures);
                    known.details.direct_signatures.append(&mut copy.details.direct_signatures);
                }
                known
            }
            None => {
                keys.push(Certificate(copy));
                keys.last_mut()
            }
        };
        let Some(Certificate(key)) = key else { continue };
        for mut user in users {
            match key.details.users.iter_mut().find(|known| known.id.id() == user.id.id()) {
                Some(known) => known.signatures.append(&mut user.signatures),
                None => key.details.users.push(user),
            }
        }
        for mut subkey in subkeys {
            match key.public_subkeys.iter_mut().find(|known| known.fingerprint() == subkey.fingerprint()) {
                Some(known) => known.signatures.append(&mut subkey.signatures),
                None => key.public_subkeys.push(subkey),
            }
        }
    }
    keys
}

/// Whether a key of the file made the signature over `payload`, and may.
pub(super) fn verify(
    certificates: &[Certificate],
    armour: &str,
    payload: &[u8],
    committed_at: i64,
) -> Result<Signer, Unverified> {
    let malformed = |why: String| Unverified::Malformed { why };
    let (signatures, _) =
        DetachedSignature::from_armor_many(armour.as_bytes()).map_err(|error| malformed(error.to_string()))?;
    let mut signatures: Vec<Signature> = signatures
        .map(|signature| signature.map(|signature| signature.signature))
        .collect::<Result<_, _>>()
        .map_err(|error| malformed(error.to_string()))?;
    let signature = signatures.pop().ok_or_else(|| malformed("it is empty".to_owned()))?;
    if !signatures.is_empty() {
        return Err(Unverified::SeveralSignatures);
    }
    let key = named(&signature);
    let refused = |why: String| Unverified::Algorithm { key: key.clone(), why };
    if signature.typ() != Some(SignatureType::Binary) {
        return Err(malformed("it is not over the bytes of a document, as git's are".to_owned()));
    }
    flaw(&signature).map_or(Ok(()), |why| Err(refused(why)))?;
    let made_at = signature.created().map(|time| i64::from(time.as_secs())).unwrap_or_default();
    let when = made_at.max(committed_at);
    let unknown = || Unverified::UnknownSigner { kind: Kind::OpenPgp, key: key.clone() };
    let (certificate, part) =
        certificates.iter().find_map(|each| Some((each, each.part(&signature)?))).ok_or_else(unknown)?;
    let fingerprint = part.fingerprint();
    weakness(part.params()).map_or(Ok(()), |why| Err(Unverified::Algorithm { key: fingerprint.clone(), why }))?;
    if !part.made(&signature, payload) {
        return Err(Unverified::Mismatch { key: fingerprint });
    }
    let signer = Signer { name: certificate.name(when), kind: Kind::OpenPgp, fingerprint };
    if signature.signature_expiration_time().is_some_and(|time| time.as_secs() > 0) {
        let why = "the signature is made to expire, so that a commit would count for some time only".to_owned();
        return Err(Unverified::NotAllowed { signer: Box::new(signer), why });
    }
    match certificate.may_sign(part, made_at, when) {
        Ok(()) => Ok(signer),
        Err(why) => Err(Unverified::NotAllowed { signer: Box::new(signer), why: why.to_owned() }),
    }
}

/// The key that a signature names, as gpg writes it.
fn named(signature: &Signature) -> String {
    let fingerprint = signature.issuer_fingerprint().first().map(ToString::to_string);
    let id = || signature.issuer_key_id().first().map(ToString::to_string);
    fingerprint.or_else(id).map_or_else(|| "that it does not name".to_owned(), |key| key.to_uppercase())
}

/// Why a signature cannot count, whoever made it.
fn flaw(signature: &Signature) -> Option<String> {
    let config =
        signature.config().filter(|config| matches!(config.version(), SignatureVersion::V4 | SignatureVersion::V6));
    let Some(config) = config else { return Some(format!("its format {:?} is not known", signature.version())) };
    let hash = config.hash_alg;
    let strong = matches!(
        hash,
        HashAlgorithm::Sha224
            | HashAlgorithm::Sha256
            | HashAlgorithm::Sha384
            | HashAlgorithm::Sha512
            | HashAlgorithm::Sha3_256
            | HashAlgorithm::Sha3_512
    );
    if !strong {
        return Some(format!("it is made with {hash}, which can be forged or is not known"));
    }
    if signature.created().is_none() {
        return Some("it does not say when it was made".to_owned());
    }
    // Whoever marks something as critical wants it refused by those who do not know it (RFC 9580, 5.2.3.7).
    let unknown = |data: &SubpacketData| {
        matches!(data, SubpacketData::Other(..) | SubpacketData::Experimental(..) | SubpacketData::Notation(_))
    };
    let critical = config.hashed_subpackets().any(|packet| packet.is_critical && unknown(&packet.data));
    critical.then(|| "it has a part that is marked as critical and not known".to_owned())
}

/// Why a key is too weak, or one that nodecfg cannot check.
fn weakness(params: &PublicParams) -> Option<String> {
    match params {
        PublicParams::RSA(rsa) => {
            // Its first number comes with its length in bits in front.
            let written = rsa.to_bytes().unwrap_or_default();
            let bits = written.first_chunk::<2>().map_or(0, |bits| u16::from_be_bytes(*bits));
            (bits < RSA_BITS).then(|| format!("its RSA key has {bits} bits, and {RSA_BITS} are the least"))
        }
        PublicParams::ECDSA(EcdsaPublicParams::Unsupported { .. }) => {
            Some("nodecfg cannot check keys of its curve".to_owned())
        }
        PublicParams::ECDSA(_) | PublicParams::EdDSALegacy(_) | PublicParams::Ed25519(_) | PublicParams::Ed448(_) => {
            None
        }
        _ => Some("nodecfg cannot check keys of its algorithm".to_owned()),
    }
}

/// The key itself, or a subkey.
#[derive(Clone, Copy)]
enum Part<'a> {
    Primary(&'a SignedPublicKey),
    Subkey(&'a SignedPublicSubKey),
}

impl Part<'_> {
    fn details(&self) -> &dyn KeyDetails {
        match self {
            Self::Primary(key) => *key,
            Self::Subkey(key) => *key,
        }
    }

    fn params(&self) -> &PublicParams {
        self.details().public_params()
    }

    fn fingerprint(&self) -> String {
        self.details().fingerprint().to_string().to_uppercase()
    }

    fn made(&self, signature: &Signature, payload: &[u8]) -> bool {
        match self {
            Self::Primary(key) => signature.verify(*key, payload).is_ok(),
            Self::Subkey(key) => signature.verify(*key, payload).is_ok(),
        }
    }

    /// Whether the signature names this key: by its fingerprint, or where there is none by its id.
    fn is_named_by(&self, signature: &Signature) -> bool {
        let fingerprints = signature.issuer_fingerprint();
        if fingerprints.is_empty() {
            let id = self.details().legacy_key_id();
            signature.issuer_key_id().contains(&&id)
        } else {
            fingerprints.contains(&&self.details().fingerprint())
        }
    }
}

impl Certificate {
    /// The key or subkey that a signature names.
    fn part(&self, signature: &Signature) -> Option<Part<'_>> {
        let subkeys = self.0.public_subkeys.iter().map(Part::Subkey);
        std::iter::once(Part::Primary(&self.0)).chain(subkeys).find(|part| part.is_named_by(signature))
    }

    /// Whether a key or subkey may make signatures at a time; otherwise why not. `made_at` is when the signature says it was
    /// made, `when` the later of that and the commit's date; both in seconds since 1970.
    fn may_sign(&self, part: Part<'_>, made_at: i64, when: i64) -> Result<(), &'static str> {
        // A revocation counts even where it cannot be checked, as with one by another key: whoever put it there meant it.
        if !self.0.details.revocation_signatures.is_empty() {
            return Err("the key is revoked");
        }
        let own = self.statement(when).ok_or("the key has no sound signature of its own that says what it is for")?;
        if has_expired(&self.0, own, when) {
            return Err("the key had expired");
        }
        let statement = match part {
            Part::Primary(_) => own,
            Part::Subkey(subkey) => {
                if subkey.signatures.iter().any(|each| each.typ() == Some(SignatureType::SubkeyRevocation)) {
                    return Err("the subkey is revoked");
                }
                let binding = self.binding(subkey, when).ok_or("the subkey is not soundly bound to its key")?;
                if has_expired(subkey, binding, when) {
                    return Err("the subkey had expired");
                }
                if binding.key_flags().sign() && !self.is_bound_back(subkey, binding) {
                    return Err("the subkey has not confirmed that it belongs to its key");
                }
                binding
            }
        };
        if !statement.key_flags().sign() {
            return Err("the key is not for signing");
        }
        if made_at < i64::from(part.details().created_at().as_secs()) {
            return Err("the signature says that it is older than its key");
        }
        Ok(())
    }

    /// The newest sound signature by which the key says what it is for.
    fn statement(&self, when: i64) -> Option<&Signature> {
        let primary = &self.0.primary_key;
        let direct =
            self.0.details.direct_signatures.iter().filter(|signature| {
                signature.typ() == Some(SignatureType::Key) && signature.verify_key(primary).is_ok()
            });
        let users = self.0.details.users.iter().filter_map(|user| self.certification(user, when));
        let with_flags = |signature: &&Signature| {
            let mut packets = signature.config().into_iter().flat_map(|config| config.hashed_subpackets());
            packets.any(|packet| matches!(packet.data, SubpacketData::KeyFlags(_)))
        };
        let sound = |signature: &&Signature| is_sound(signature, when);
        direct.filter(sound).chain(users).filter(with_flags).max_by_key(|signature| signature.created())
    }

    /// The newest sound signature of the key itself on one of its user ids, unless it took that back.
    fn certification<'a>(&self, user: &'a SignedUser, when: i64) -> Option<&'a Signature> {
        let own =
            |signature: &&Signature| signature.verify_certification(&self.0.primary_key, Tag::UserId, &user.id).is_ok();
        let is_revocation = |signature: &&Signature| signature.typ() == Some(SignatureType::CertRevocation);
        let newest = user
            .signatures
            .iter()
            .filter(|signature| signature.is_certification() && !is_revocation(signature) && is_sound(signature, when))
            .filter(own)
            .max_by_key(|signature| signature.created())?;
        let revoked =
            user.signatures.iter().filter(is_revocation).filter(own).any(|each| each.created() >= newest.created());
        (!revoked).then_some(newest)
    }

    /// The newest sound signature that binds a subkey to the key.
    fn binding<'a>(&self, subkey: &'a SignedPublicSubKey, when: i64) -> Option<&'a Signature> {
        let bindings = subkey.signatures.iter().filter(|signature| {
            signature.typ() == Some(SignatureType::SubkeyBinding)
                && is_sound(signature, when)
                && signature.verify_subkey_binding(&self.0.primary_key, &subkey.key).is_ok()
        });
        bindings.max_by_key(|signature| signature.created())
    }

    /// Whether the subkey signed that it belongs to the key. Otherwise anybody's subkey could be claimed.
    fn is_bound_back(&self, subkey: &SignedPublicSubKey, binding: &Signature) -> bool {
        binding.embedded_signature().is_some_and(|back| {
            back.typ() == Some(SignatureType::KeyBinding)
                && flaw(back).is_none()
                && back.verify_primary_key_binding(&subkey.key, &self.0.primary_key).is_ok()
        })
    }

    /// Its main user id.
    fn name(&self, when: i64) -> String {
        let own = |user: &&SignedUser| self.certification(user, when).is_some();
        let users: Vec<&SignedUser> = self.0.details.users.iter().filter(own).collect();
        let main = users.iter().find(|user| self.certification(user, when).is_some_and(Signature::is_primary));
        let name = main.or(users.first()).map(|user| String::from_utf8_lossy(user.id.id()).into_owned());
        // It goes to terminals.
        name.map_or_else(|| "somebody without a user id".to_owned(), |name| name.replace(char::is_control, " "))
    }
}

/// Whether what a key says of itself counts.
fn is_sound(signature: &Signature, when: i64) -> bool {
    flaw(signature).is_none() && !ended(signature.created(), signature.signature_expiration_time(), when)
}

fn has_expired(key: &impl KeyDetails, statement: &Signature, when: i64) -> bool {
    ended(Some(key.created_at()), statement.key_expiration_time(), when)
}

/// Whether something that began then and lasts so long is over. It lasts for ever where it does not say, or says 0.
fn ended(began: Option<pgp::types::Timestamp>, lasts: Option<pgp::types::Duration>, when: i64) -> bool {
    let lasts = lasts.map_or(0, |lasts| i64::from(lasts.as_secs()));
    lasts > 0 && began.is_none_or(|began| i64::from(began.as_secs()) + lasts <= when)
}
