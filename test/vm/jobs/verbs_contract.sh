# shellcheck shell=bash
# The contract that the fake keeps, asked of the kernel's soft-RoCE.
export VERBS_TEST_DEVICES=rxe0,rxe1 MKV_TEST_REQUIRE=rxe
"$(vm_program "$MKV_BUILD/test/fake/verbs/test_verbs_contract")"
