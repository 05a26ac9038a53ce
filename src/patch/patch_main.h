/* The program apply_patch, for models that call it from a shell:
 *
 *   apply_patch 'PATCH'        or        apply_patch <<'EOF' …
 *
 * Paths are relative to the current folder. The workspace that they may not leave is the
 * folder that GLOVEBOX_WORKSPACE names, else /work, if the current folder is below it;
 * else the current folder. */
#ifndef GB_PATCH_PATCH_MAIN_H
#define GB_PATCH_PATCH_MAIN_H

/* The exit code: 0, 1 when the patch was not applied, 2 for wrong usage. */
int gb_patch_main(int argc, char **argv);

#endif
