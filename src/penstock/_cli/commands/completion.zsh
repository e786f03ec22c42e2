#compdef penstock
# Completion of penstock for zsh. `penstock completion zsh` prints this.
_penstock() {
    local -a rows described bare
    local row word about
    rows=("${(@f)$("${words[1]}" completion --words "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ $rows[1] == ":files" ]]; then
        _files
        return
    fi
    for row in $rows; do
        [[ -z $row ]] && continue
        word=${row%%$'\t'*}
        about=${row#*$'\t'}
        if [[ $word == */ ]]; then
            bare+=("$word")
        else
            described+=("${word//:/\\:}:$about")
        fi
    done
    (( ${#bare} )) && compadd -S '' -- $bare
    (( ${#described} )) && _describe penstock described
    return 0
}
if [[ $funcstack[1] == _penstock ]]; then
    _penstock "$@"
else
    compdef _penstock penstock
fi
