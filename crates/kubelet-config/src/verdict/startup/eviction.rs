//! Eviction thresholds, their grace periods and minimum reclaims: `pkg/kubelet/eviction/helpers.go`
//! `ParseThresholdConfig`.

use super::{did_you_mean, is_known, keys};
use crate::document::Entry;
use crate::values::quantity::Quantity;
use crate::values::{duration, strconv, units};
use crate::verdict::refusals::{Check, Refusals};

/// The maps with signals as keys.
const MAPS: [&str; 4] = ["evictionHard", "evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim"];

const HELP: &str = "write a quantity such as \"500Mi\", or a percentage of the capacity such as \"10%\"";

pub(super) const CHECKS: &[Check] = &[
    ("eviction-signal", |config, refusals| {
        for path in MAPS {
            for (signal, entry) in config.entries(path) {
                if !is_known(config, path, signal) {
                    let message =
                        format!("{path} contains the signal {signal:?}, which kubelet {} lacks", config.minor());
                    let help = did_you_mean(signal, keys(config, path));
                    refusals.at(format!("{path}.{signal}"), entry.key_place.clone(), message).help(help);
                }
            }
        }
    }),
    ("eviction-threshold", |config, refusals| {
        for path in ["evictionHard", "evictionSoft"] {
            for (signal, text, entry) in config.texts(path).filter(|(signal, ..)| is_known(config, path, signal)) {
                if let Err(why) = threshold(text) {
                    refuse(refusals, (path, signal, text, entry), why);
                }
            }
        }
    }),
    ("eviction-soft-grace", |config, refusals| {
        for (signal, text, entry) in config.texts("evictionSoft") {
            let given = config.entries("evictionSoftGracePeriod").any(|(with_grace, _)| with_grace == signal);
            if threshold(text) == Ok(true) && is_known(config, "evictionSoft", signal) && !given {
                let message = format!("the soft threshold {signal} has no entry in evictionSoftGracePeriod");
                let help = format!("set evictionSoftGracePeriod: {{{signal}: 1m30s}}, or another period");
                refusals.at(format!("evictionSoft.{signal}"), entry.key_place.clone(), message).help(help);
                if config.given("evictionSoftGracePeriod").is_some() {
                    refusals.related(config.place("evictionSoftGracePeriod"), "the grace periods");
                }
            }
        }
    }),
    ("eviction-grace-period", |config, refusals| {
        let path = "evictionSoftGracePeriod";
        for (signal, text, entry) in config.texts(path).filter(|(signal, ..)| is_known(config, path, signal)) {
            match duration::nanoseconds(text) {
                Ok(nanos) if nanos < 0 => refuse(refusals, (path, signal, text, entry), "is negative"),
                Ok(_) => {}
                Err(why) => refuse(refusals, (path, signal, text, entry), why),
            }
        }
    }),
    ("eviction-minimum-reclaim", |config, refusals| {
        let path = "evictionMinimumReclaim";
        for (signal, text, entry) in config.texts(path).filter(|(signal, ..)| is_known(config, path, signal)) {
            let why = match amount(text) {
                Ok(Amount::Share(share)) if share <= 0.0 => "is not above 0%",
                Ok(Amount::Fixed(fixed)) if fixed.is_negative() => "is negative",
                Ok(_) => continue,
                Err(why) => why,
            };
            refuse(refusals, (path, signal, text, entry), why);
        }
    }),
];

fn refuse(refusals: &mut Refusals, entry: (&str, &str, &str, &Entry), why: &str) {
    let (path, signal, text, entry) = entry;
    let field = format!("{path}.{signal}");
    let message = format!("{field} {text:?} {why}");
    refusals.at(field, entry.value.place.clone(), message);
    match units::intended(text).filter(|_| units::counts_bytes(path, signal)) {
        Some(meant) => refusals.help(format!("write {meant:?}")),
        None if path == "evictionSoftGracePeriod" => refusals.help("write a duration such as 1m30s"),
        None => refusals.help(HELP),
    };
}

/// The value of a threshold or a reclaim.
enum Amount {
    /// A share of the capacity; 1 is the whole capacity.
    Share(f32),
    /// A quantity.
    Fixed(Quantity),
}

/// Reports whether a text sets a threshold: exactly 0% and 100% disable it.
fn threshold(text: &str) -> Result<bool, &'static str> {
    if matches!(text, "0%" | "100%") {
        return Ok(false);
    }
    match amount(text)? {
        // NaN is neither below nor above, and is accepted.
        Amount::Share(share) if share < 0.0 => Err("is below 0%"),
        Amount::Share(share) if share > 1.0 => Err("is above 100%"),
        Amount::Fixed(fixed) if fixed.is_negative() || fixed.is_zero() => Err("is not above zero"),
        _ => Ok(true),
    }
}

fn amount(text: &str) -> Result<Amount, &'static str> {
    if !text.ends_with('%') {
        return Quantity::parse(text).map(Amount::Fixed).map_err(|_| "is neither a quantity nor a percentage");
    }
    let number = strconv::float32(text.trim_end_matches('%')).ok_or("has no number before the %")?;
    Ok(Amount::Share(number / 100.0))
}

/// Returns the quantity of a hard threshold; `None` for a percentage or an invalid text.
pub(super) fn fixed(text: &str) -> Option<Quantity> {
    match amount(text) {
        Ok(Amount::Fixed(fixed)) => Some(fixed),
        _ => None,
    }
}
