# Completion of penstock for bash. `penstock completion bash` prints this.
_penstock_complete() {
    local line=${COMP_LINE:0:COMP_POINT} word=${COMP_WORDS[COMP_CWORD]} cut words candidates row
    # Words as the shell reads them: bash splits at colons and equals signs, penstock must not.
    read -r -a words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    local begin=${words[${#words[@]} - 1]}
    COMPREPLY=()
    candidates=$("${words[0]}" completion --words "${words[@]:1}" 2>/dev/null) || return 0
    if [[ $candidates == ":files" ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return 0
    fi
    # What bash counts as the word may be the end of ours: the part before it must not be repeated.
    cut=${begin%"$word"}
    [[ $word == [:=] ]] && cut=$begin
    while IFS=$'\t' read -r row _; do
        [[ -n $row ]] && COMPREPLY+=("${row#"$cut"}")
    done <<<"$candidates"
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -F _penstock_complete penstock
