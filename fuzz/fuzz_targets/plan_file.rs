//! Fuzz target of saved plans: a plan is read only with its own digest, and reads to what was written.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nodecfg_plan::saved::{SavedPlan, SavedPlanError, read};

fuzz_target!(|bytes: &[u8]| {
    let original = read(bytes);
    let Ok(plan) = serde_json::from_slice::<SavedPlan>(bytes) else { return };
    // No input has the right digest by chance.
    let signed = plan.clone().with_digest();
    assert_eq!(original.is_ok(), signed == plan);
    let text = signed.text();
    match read(text.as_bytes()) {
        Ok(again) => assert_eq!(again, signed),
        Err(error) => assert!(matches!(error, SavedPlanError::OtherVersion { .. }), "{error}"),
    }
    let SavedPlan { cluster, plan, options, .. } = &signed;
    assert_eq!(signed.context_differences(cluster, &plan.fleet, plan.commit.as_ref()), []);
    let _ = options.arguments();
});
